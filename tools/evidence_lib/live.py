"""Trainings that run live, between network namespaces, beside what is composed of simulated steps
and times of a step."""

import json
from dataclasses import dataclass
from pathlib import Path

from net_lib.network import Network
from net_lib.ranks import outputs_of

from .contenders import FLOAT32, FP16
from .other_work import OtherWork

_RANK = Path(__file__).with_name("live_rank.py")
NAMES = (FLOAT32, FP16, "PowerSGD rank 4", "blocks-8", "rotated-4-8", "rotated-4")
SEED, HOSTS, STEPS = 0, 4, 12


@dataclass(frozen=True)
class Setting:
    """A domain between hosts. Its network is small, so links are slow: what is compared is the
    composition."""

    domain: str
    rate: str  # as tc has it
    compute_ms: float

    @property
    def title(self):
        return f"{self.domain}, {self.rate.replace('mbit', ' Mbit/s')}"


SETTINGS = (Setting("lm", "50mbit", 50), Setting("clicks", "200mbit", 50))


def key_of(setting, name):
    return f"{setting.domain}/{HOSTS}/{setting.rate}/{setting.compute_ms:g} ms/{name}"


def measure(setting, name):
    """What live_rank.py prints, and "others", as of a cell."""
    busy = OtherWork()
    with Network(HOSTS, setting.rate) as network:
        output = outputs_of(network, f"the training {setting.domain}", _RANK, setting.domain, SEED,
                            setting.compute_ms, STEPS, name, timeout_s=1800)[0]
    return {**json.loads(output), "others": round(busy.processors(), 2)}


def composed(simulated, step_s):
    """[[step, seconds, loss]] of a simulated run ({"curve": [[step, loss]]})."""
    return [[step, step * step_s, loss] for step, loss in simulated["curve"]]


def times_to_quality(run, simulated, quality):
    """(live, composed) seconds; None for one that has not reached it."""
    live_s = run["curve"][-1][1] if run["curve"][-1][2] <= quality else None
    steps = simulated["steps"]
    return live_s, steps * run["step_s"] if steps else None
