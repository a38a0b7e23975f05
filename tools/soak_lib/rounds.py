"""The rounds of a run: which group forms, what it calls and what happens to it, from a seed."""

import random
from dataclasses import dataclass

SIZE = 3  # ranks of a group, which are the processes of a run but for groups of threads
FAULTS = ("none", "none", "mismatch", "refuse", "abort", "leave", "stall", "kill")
# Processes are killed at any instant of a round. Over a network rank 2 ends itself when the group
# has formed: UCX before 1.14 may not be closed before that, and what it holds then is lost on
# purpose (src/transport/ucx/ucx_engine.h). tools/netfaults kills while such groups form.
KILLS = {"processes": "from outside", "network": "from inside"}
BREAKING = ("abort", "leave", "stall", "kill")
_OPTIONS = ("", "", ",threads=2", ",chunk_value_count=1024", ",nontemporal_bytes=4096",
            ",nodes=0:0:1")
COUNT_MAX = 40_000


@dataclass(frozen=True)
class Round:
    """The fields of struct Round of soak_round.h that do not differ between ranks."""

    number: int
    transport: str
    seed: int
    calls: int
    fault: str
    victim: int
    fault_call: int
    delay_us: int
    options: str
    continues: bool
    kill_s: float  # from the begin of the round to the end of its victim, from outside

    def line(self, rank, ids):
        """The command for the process of `rank`; ids: of the group and of the one that goes on."""
        fields = (self.number, self.transport, rank, SIZE, self.seed, self.calls, COUNT_MAX,
                  self.fault, self.victim, self.fault_call, self.delay_us, self.options,
                  int(self.continues), *(name or "-" for name in ids))
        return f"round {' '.join(map(str, fields))}\n"


def draw(seed, number, transports):
    """The round `number`; the same for the same arguments."""
    source = random.Random(f"{seed} {number}")
    transport = transports[number % len(transports)]
    fault = source.choice([name for name in FAULTS if transport in KILLS or name != "kill"])
    calls = source.randrange(5, 40)
    # Ranks 0 and 1 live through the whole run: what is killed is rank 2.
    victim = SIZE - 1 if fault == "kill" else source.randrange(SIZE)
    continues = fault not in ("leave", "kill", "stall") and source.random() < 0.3
    return Round(number, transport, source.getrandbits(63), calls, fault, victim,
                 source.randrange(calls), source.choice((0, 0, 100, 1000)),
                 f"timeout_ms=20000{source.choice(_OPTIONS)}", continues,
                 source.uniform(0, 0.08))
