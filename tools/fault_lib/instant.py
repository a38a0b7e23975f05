"""What happens to which rank, and when: drawn from a seed and a number."""

import random
from dataclasses import dataclass

# Timeouts of the communicators: short where it is the timeout that ends calls.
LONG_MS, SHORT_MS = 20_000, 1_500
_ON_TIMEOUT = ("TIMEOUT", "PEER_LOST")  # UCX may see that a peer is out of reach before that


@dataclass(frozen=True)
class Kind:
    """What happens, and what the library promises of it."""

    name: str
    statuses: tuple  # that every other rank may return
    limit_ms: int  # by then it has
    timeout_ms: int = LONG_MS
    needs_hosts: bool = False
    while_forming: bool = False


KINDS = {kind.name: kind for kind in (
    Kind("kill", ("PEER_LOST",), 1000),
    Kind("kill, child lives", ("PEER_LOST",), 1000),
    Kind("abort", ("ABORTED",), 100),
    Kind("destroy", ("PEER_LOST",), 1000),
    Kind("stop", ("TIMEOUT",), SHORT_MS, SHORT_MS),
    # Reports of ranks that time out together are waited for, a second at most.
    Kind("kill while forming", _ON_TIMEOUT, SHORT_MS + 1000, SHORT_MS, while_forming=True),
    Kind("stop while forming", _ON_TIMEOUT, SHORT_MS + 1000, SHORT_MS, while_forming=True),
    Kind("kill on a host", ("PEER_LOST",), 1000, needs_hosts=True),
    Kind("cut link", _ON_TIMEOUT, SHORT_MS, SHORT_MS, needs_hosts=True),
    Kind("blackhole", _ON_TIMEOUT, SHORT_MS, SHORT_MS, needs_hosts=True),
    Kind("blackhole, one pair", _ON_TIMEOUT, SHORT_MS, SHORT_MS, needs_hosts=True),
)}
# In this order, over and over: kills and aborts, the cheapest, are half of all.
CYCLE = ("kill", "abort", "stop", "kill, child lives", "cut link", "kill", "abort",
         "kill while forming", "blackhole", "destroy", "kill", "blackhole, one pair",
         "kill on a host", "stop while forming")

_QUANTIZERS = ("blocks-8", "paper-gl8", "rotated-4-8", "none")
_SCHEDULES = {"ring": 1, "tree": 2, "butterfly": 3, "direct": 4}
_ALL_SCHEDULES = ("paper-gl8", "none")
DIRECTIONS = ("both", "to", "from")


@dataclass(frozen=True)
class Instant:
    number: int
    kind: Kind
    victim: int
    partner: int  # the other rank of a pair
    direction: str  # in which packets vanish, seen from the victim
    delay_s: float  # after all have joined, or after they were started
    options: str
    quantizer: str
    schedule: int
    count: int
    requests: int
    pause_us: int
    transports: str  # of UCX; "" leaves the choice to it
    ucx: str

    @property
    def culprits(self):
        """Ranks that may be named."""
        pair = self.kind.name == "blackhole, one pair"
        return {self.victim, self.partner} if pair else {self.victim}

    def __str__(self):
        return (f"instant {self.number}, {self.kind.name} of rank {self.victim} after "
                f"{self.delay_s * 1e3:.1f} ms ({self.direction} {self.partner}): {self.quantizer}, "
                f"schedule {self.schedule}, {self.count} values, {self.requests} requests, pause "
                f"{self.pause_us} us, {self.options}, UCX_TLS={self.transports or 'any'} "
                f"{self.ucx}".rstrip())


def draw(seed, number, ranks, *, hosts=True, ucx=("",)):
    """The instant `number`; the same for the same arguments."""
    source = random.Random(f"{seed} {number}")
    cycle = [name for name in CYCLE if hosts or not KINDS[name].needs_hosts]
    kind = KINDS[cycle[number % len(cycle)]]
    quantizer = source.choice(_QUANTIZERS)
    schedule = source.choice(list(_SCHEDULES) if quantizer in _ALL_SCHEDULES else ["direct"])
    chunk = source.choice(["", ",chunk_value_count=8192"])
    victim = source.randrange(ranks)
    return Instant(
        number, kind, victim, (victim + source.randrange(1, ranks)) % ranks,
        source.choice(DIRECTIONS), source.uniform(0, 0.15),
        f"timeout_ms={kind.timeout_ms if kind.while_forming else LONG_MS}{chunk}",
        quantizer, _SCHEDULES[schedule], source.choice([1000, 100_000, 1_000_000]),
        source.choice([1, 1, 4]), source.choice([0, 0, 3000]),
        "tcp,self" if kind.needs_hosts else source.choice(["", "tcp,self"]), source.choice(ucx))
