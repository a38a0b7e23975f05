"""Communicators between hosts for ranks that already reach each other, through a store of a
framework: all ranks get one, or all raise the same error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from .. import errors
from ..communicator import Communicator
from .groups import network_id

Report = dict[str, Any]  #: what a rank reports of itself, or rank 0's decision; JSON
#: Every rank calls it with what it reports of itself; rank 0's decision is the result on all. What
#: the decision raises on rank 0 is raised on all.
Agree = Callable[[Report, Callable[[list[Report]], Report]], Report]

_NO_FAILURE: Report = {"failure": "", "sentence": ""}


def published(error: Exception) -> Report:
    """What rank 0 tells the others of a decision that has failed."""
    kind = error if isinstance(error, errors.GqsgdError) else errors.RemoteError()
    return {"error": type(kind).__name__, "sentence": f"rank 0: {error}"}


def received(decision: Report) -> Report:
    """Rank 0's decision on another rank, or what it raised there."""
    if "error" in decision:
        raise getattr(errors, decision["error"])(decision["sentence"])
    return decision


class NetworkGroup(NamedTuple):
    """A rank's view of a group that is about to form."""

    agree: Agree
    rank: int
    size: int
    id_options: dict[str, Any]  #: of `gqsgd.network_id`, which rank 0 calls
    options: dict[str, Any]  #: of the communicator

    def connect(self) -> Communicator:
        """This rank's communicator; all ranks call. Raises on all ranks the error of the first one
        that failed: Unsupported only if all that failed have that, as where ranks have no UCX."""
        started = self.agree(_described(self._lack()), self._start)
        _raise(started)
        comm, failure = self._join(bytes.fromhex(started["id"]))
        try:
            _raise(self.agree(_described(failure), _outcome), failure)
        except BaseException:
            if comm is not None:
                comm.close()
            raise
        assert comm is not None
        return comm

    def _lack(self) -> Exception | None:
        """Why this rank cannot be part of any such group, found out before others wait for it: it
        makes a group of its own, with this process alone."""
        own = {key: self.options[key] for key in ("interface", "address") if key in self.options}
        try:
            Communicator.network(network_id(**own), 0, 1, **_of_one(self.options)).close()
        except Exception as error:  # whatever it is, all ranks must know
            return error
        return None

    def _start(self, reports: list[Report]) -> Report:
        """Rank 0 begins to listen, if no rank lacks anything."""
        outcome = _outcome(reports)
        if outcome["failure"]:
            return outcome
        return {**outcome, "id": network_id(**self.id_options).hex()}

    def _join(self, unique_id: bytes) -> tuple[Communicator | None, Exception | None]:
        try:
            return Communicator.network(unique_id, self.rank, self.size, **self.options), None
        except Exception as error:
            return None, error


def _of_one(options: dict[str, Any]) -> dict[str, Any]:
    """Without what is for a group of another size, or for one group alone."""
    return {key: value for key, value in options.items() if key not in ("nodes", "port")}


def _described(failure: Exception | None) -> Report:
    if failure is None:
        return _NO_FAILURE
    is_own = isinstance(failure, errors.GqsgdError)
    return {
        "failure": type(failure).__name__ if is_own else "RemoteError",
        "sentence": str(failure) if is_own else f"{type(failure).__name__}: {failure}",
    }


def _outcome(reports: list[Report]) -> Report:
    """The failure of the group: of the first rank that has one, Unsupported after all others."""
    failed = [(rank, each) for rank, each in enumerate(reports) if each["failure"]]
    failed.sort(key=lambda entry: entry[1]["failure"] == "Unsupported")
    if not failed:
        return _NO_FAILURE
    rank, first = failed[0]
    if failed == [(k, first) for k in range(len(reports))]:
        return first  # the library has reported it everywhere
    return {"failure": first["failure"], "sentence": f"rank {rank}: {first['sentence']}"}


def _raise(outcome: Report, cause: Exception | None = None) -> None:
    if outcome["failure"]:
        raise getattr(errors, outcome["failure"])(outcome["sentence"]) from cause
