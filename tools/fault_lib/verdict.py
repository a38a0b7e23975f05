"""What a group's ends say about the library: wrong names, hangs, waits that are too long."""

import re
from dataclasses import asdict, dataclass, field

DESTROY_MS = 200  # destroying a communicator that is broken moves nothing
_RANKS = r"ranks? ([\d, -]*\d)"
# The first that is found has the ranks that a sentence blames.
_BLAMES = [re.compile(pattern) for pattern in (
    r"itself waits for rank (\d+), which is stopped",
    r"gave up: rank (\d+) made no progress",
    r"rank (\d+) gave up: it waited in vain",
    r"no other rank answers rank (\d+)",
    r"rank (\d+) waited \d+ ms for the other ranks",
    r"rank (\d+) (?:has died|destroyed its communicator|aborted)",
    rf"waited \d+ ms for {_RANKS} to make this call",
    r"waited \d+ ms for rank (\d+) to take the last codes",
    r"waited \d+ ms for .* from rank (\d+) \(schedule",
    r"waited \d+ ms for .*rank (\d+)",
    r"missing ranks: ([\d, -]*\d)",
    r"rank (\d+) (?:\(.*\) |at \S+ )?died, or closed",
    r"rank (\d+) at \S+ did not answer",
    r"did not answer in the time allowed: rank (\d+) is stopped",
    rf"is not connected to {_RANKS} in the time",
    rf"^(?:rank \d+: )?{_RANKS} did not say in the time",
    rf"no greeting over UCX from or to {_RANKS}",
    r"its connection of UCX to rank (\d+) failed",
    r"cannot reach rank (\d+): ucp",
)]


def blamed(sentence):
    """The ranks that an error sentence names as the reason."""
    for pattern in _BLAMES:
        if found := pattern.search(sentence):
            return set(_listed(found.group(1)))
    return set()


def _listed(text):
    """The ranks of "0-2, 5"."""
    for first, last in re.findall(r"(\d+)(?:-(\d+))?", text):
        yield from range(int(first), int(last or first) + 1)


@dataclass
class Verdict:
    """Of one instant. Milliseconds are of the ranks that nothing happened to."""

    number: int
    kind: str
    waited_ms: list = field(default_factory=list)  # from the instant to the failed call's return
    destroyed_ms: list = field(default_factory=list)
    hung: int = 0
    wrong: list = field(default_factory=list)  # sentences
    late: list = field(default_factory=list)

    def as_json(self):
        return asdict(self)

    def is_right(self):
        return not (self.hung or self.wrong or self.late)


def judge(instant, group, at_ns, slack_ms):
    """`at_ns`: when it happened. `slack_ms`: what a loaded machine may add to every limit."""
    verdict = Verdict(instant.number, instant.kind.name)
    acted = group.ends[instant.victim]
    if acted and acted.acted_ns:
        at_ns = acted.acted_ns
    spared = set(range(len(group.ends))) - {instant.victim}
    for rank in sorted(spared):
        end = group.ends[rank]
        if end is None:
            verdict.hung += 1
            continue
        _judge_end(instant, rank, end, verdict)
        begun_ns = max(at_ns, group.starts_ns[rank]) if instant.kind.while_forming else at_ns
        waited_ms = (end.returned_ns - begun_ns) / 1e6
        verdict.waited_ms.append(waited_ms)
        if waited_ms > instant.kind.limit_ms + slack_ms:
            verdict.late.append(f"rank {rank} after {waited_ms:.0f} ms: {end.sentence}")
    _judge_victim(instant, group, verdict)
    for rank, end in enumerate(group.ends):
        if end is None:
            continue
        destroyed_ms = (end.destroyed_ns - end.returned_ns) / 1e6
        verdict.destroyed_ms.append(destroyed_ms)
        if destroyed_ms > DESTROY_MS + slack_ms:
            verdict.late.append(f"rank {rank} took {destroyed_ms:.0f} ms to destroy")
    return verdict


def _judge_end(instant, rank, end, verdict):
    named = blamed(end.sentence)
    # While a group forms ranks do not know who waits for whom: one that waits may be named beside
    # the one that it waits for.
    is_right = (instant.culprits <= named if instant.kind.while_forming
                else named and named <= instant.culprits)
    if end.status in instant.kind.statuses and is_right:
        return
    # Of a pair each may learn first that the group gave up on itself.
    if end.status == "REVOKED" and rank in instant.culprits:
        return
    verdict.wrong.append(f"rank {rank}, {end.status}: {end.sentence}")


_VICTIMS = {"abort": ("ABORTED",), "destroy": ("OK",), "stop": ("REVOKED",)}
_KILLED = ("kill", "kill, child lives", "kill while forming", "kill on a host")


def _judge_victim(instant, group, verdict):
    """Where it lives on: its call has ended too, and does not look like a success."""
    if instant.kind.name in _KILLED:
        return
    end = group.ends[instant.victim]
    if end is None:
        verdict.hung += 1
        return
    statuses = _VICTIMS.get(instant.kind.name, ("TIMEOUT", "PEER_LOST", "REVOKED"))
    if end.status not in statuses:
        verdict.wrong.append(f"rank {instant.victim}, the victim, {end.status}: {end.sentence}")
