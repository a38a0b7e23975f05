"""Counters of a communicator, as `Communicator.stats` returns them."""

from __future__ import annotations

import math
from collections.abc import Mapping


class Stats(dict[str, int]):
    """Counters of one rank by name; running totals.

        calls                    collectives
        messages_sent            of any kind
        header_bytes_sent        control messages, by which ranks compare their calls
        payload_bytes_sent       codes and what travels with them
        uncompressed_bytes_sent  the payload as float32
        payload_bytes_copied     0 where codes of peers are read in place
        wait_ns                  nanoseconds that calls waited for other ranks
        workspace_bytes          allocated for codes
        nonfinite_blocks         blocks that held NaN or infinity
        native_float_calls       calls whose floats the transport added, in its own order
    """

    @property
    def ratio(self) -> float:
        """How many times smaller than float32 the payload was: uncompressed_bytes_sent /
        payload_bytes_sent. NaN where nothing was sent: a group of one rank sends nothing."""
        sent_bytes = self["payload_bytes_sent"]
        return self["uncompressed_bytes_sent"] / sent_bytes if sent_bytes else math.nan

    def since(self, before: Mapping[str, int]) -> Stats:
        """The counters of the time since `before`, which `Communicator.stats` returned then."""
        return Stats((name, total - before[name]) for name, total in self.items())
