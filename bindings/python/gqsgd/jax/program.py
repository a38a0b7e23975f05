"""The processes that jax.distributed has joined, and how they agree through its key-value store.
What JAX keeps private of that is used here alone."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
from jax._src import distributed

from .. import errors
from ..network.agreement import Report, published, received

_DEFAULT_MS = 300_000  # as communicators have it
_FOR_EVER_MS = 2**31 - 1

_numbers = itertools.count()  # of agreements, in which all processes take part in one order


class Program(NamedTuple):
    """This process in the program."""

    client: Any
    rank: int
    size: int
    coordinator: str  #: host:port
    timeout_ms: int

    def agree(self, own: Report, decide: Callable[[list[Report]], Report]) -> Report:
        """Rank 0 decides from what all ranks report of themselves; every rank gets its decision, or
        raises what `decide` raised there. Every rank calls. Raises Timeout with the rank that has
        not come."""
        table = f"gqsgd/{next(_numbers)}"
        self.client.key_value_set(f"{table}/{self.rank}", json.dumps(own))
        if self.rank != 0:
            return received(self._get(table, "decision", 0))
        try:
            decision = decide([self._get(table, str(k), k) for k in range(self.size)])
        except Exception as error:
            self.client.key_value_set(f"{table}/decision", json.dumps(published(error)))
            raise
        self.client.key_value_set(f"{table}/decision", json.dumps(decision))
        return decision

    def _get(self, table: str, key: str, rank: int) -> Report:
        """What `rank` has published, once it has."""
        try:
            found: Report = json.loads(self.client.blocking_key_value_get(
                f"{table}/{key}", self.timeout_ms))
        except jax.errors.JaxRuntimeError as error:
            raise errors.Timeout(
                f"rank {rank} has not come to make a communicator: {error}; hint: every process of "
                "the program calls, in the same order"
            ) from error
        return found


def current(timeout_ms: int) -> Program | None:
    """The program that jax.distributed.initialize() has joined; None without one.

    timeout_ms: as option of a communicator, 0 being the default and -1 for ever."""
    state = distributed.global_state
    if state.client is None:
        return None
    wait_ms = _FOR_EVER_MS if timeout_ms < 0 else timeout_ms or _DEFAULT_MS
    return Program(state.client, state.process_id, state.num_processes,
                   state.coordinator_address or "", wait_ms)
