"""What the trainings say: steps to the quality beside float32's of the same seed."""

import math
import statistics
from dataclasses import dataclass

from .contenders import ALL, FLOAT32
from .domains import DOMAINS

CURVE_SEED = "0"  # whose curves are drawn


@dataclass(frozen=True)
class Outcome:
    """Of one contender on one domain. ratios: its steps over float32's, one per seed in which it
    has reached the quality; mean_steps: of these."""

    ratios: tuple
    mean_steps: float
    seeds: int
    error: float
    last_losses: tuple  # of the seeds that have not reached it

    @property
    def reached(self):
        return len(self.ratios) == self.seeds

    @property
    def ratio(self):
        """Geometric mean over seeds."""
        return math.exp(statistics.mean(map(math.log, self.ratios)))

    def cell(self):
        if not self.reached:
            loss = statistics.mean(self.last_losses)
            return f"**no**: {loss:.3f} in {self.seeds - len(self.ratios)} of {self.seeds}"
        spread = f" +- {statistics.stdev(self.ratios):.2f}" if self.seeds > 1 else ""
        return f"{self.ratio:.2f}{spread}"


def outcomes(runs):
    """{contender: Outcome} of {"ranks/name/seed": result} of one domain, for seeds that float32 has
    as well; it has to reach the quality in each."""
    base, found = {}, {}
    for key, run in runs.items():
        _, name, seed = key.split("/")
        if name == FLOAT32:
            if run["steps"] is None:
                raise ValueError(f"float32 does not reach the quality with seed {seed}; the domain "
                                 "needs more steps or another quality")
            base[seed] = run["steps"]
    for name in [contender.name for contender in ALL]:
        own = {key.split("/")[2]: run for key, run in runs.items() if key.split("/")[1] == name}
        own = {seed: run for seed, run in own.items() if seed in base}
        if own:
            steps = {seed: run["steps"] for seed, run in own.items() if run["steps"]}
            found[name] = Outcome(
                tuple(count / base[seed] for seed, count in steps.items()),
                statistics.mean(steps.values()) if steps else math.inf, len(own),
                statistics.mean(run["error"] for run in own.values()),
                tuple(run["curve"][-1][1] for run in own.values() if not run["steps"]))
    return found


def common(of_domains):
    """{contender: geometric mean of its ratios over domains, or None: a quality not reached} of
    the domains that count and the contenders that all of them have."""
    of_domains = {name: found for name, found in of_domains.items() if DOMAINS[name].counts}
    names = set.intersection(*(set(found) for found in of_domains.values()))
    result = {}
    for contender in ALL:
        if contender.name in names:
            own = [found[contender.name] for found in of_domains.values()]
            result[contender.name] = (
                math.exp(statistics.mean(math.log(one.ratio) for one in own))
                if all(one.reached for one in own) else None)
    return result


def digest(results):
    """What the page needs: of simulated trainings, curves of one seed alone; the others keep their
    end."""
    return {key: run if "steps" not in run or key.endswith(f"/{CURVE_SEED}")
            else {**run, "curve": run["curve"][-1:]} for key, run in results.items()}
