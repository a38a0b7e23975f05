"""The command line of tools/soak, and its verdict."""

import argparse
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from .flatness import LIMITS, growth
from .rounds import BREAKING, SIZE, draw
from .workers import Hang, Workers

LEAKS = ("memory", "descriptor", "thread", "mapping")
ROUNDS_MIN = 30  # fewer say nothing about growth


def parse_arguments(arguments=None):
    parser = argparse.ArgumentParser(
        prog="tools/soak", formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        description="Groups of threads, of processes and over a network form in the same three "
                    "processes, make random calls, fail in random ways and go on. Statuses must "
                    "be right, results equal, nothing may hang, and what the processes hold may "
                    "not grow. Exit status 1: something was wrong or grew.")
    parser.add_argument("--build", type=Path, default=Path("build"), help="folder of a build")
    parser.add_argument("--seconds", type=float, default=60, help="length of the run")
    parser.add_argument("--seed", default="1", help="a seed and a number make a round")
    parser.add_argument("--first", type=int, default=0, help="number of the first round")
    parser.add_argument("--rounds", type=int, default=0, help="at most so many; 0: all that fit")
    parser.add_argument("--transports", nargs="+", default=["threads", "processes", "network"],
                        choices=["threads", "processes", "network"])
    parser.add_argument("--leak", choices=LEAKS, nargs="+", default=[],
                        help="mutations: the processes leak 1 KiB a call, or one of the others a "
                             "round; the run must find all")
    return parser.parse_args(arguments)


@dataclass
class Run:
    """What has happened so far."""

    seconds: float = 0
    rounds: dict = field(default_factory=dict)  # transport: count
    faults: dict = field(default_factory=dict)
    calls: int = 0
    refused: int = 0
    wrong: list = field(default_factory=list)
    samples: list = field(default_factory=lambda: [[] for _ in range(SIZE - 1)])

    def add(self, one, ends):
        self.rounds[one.transport] = self.rounds.get(one.transport, 0) + 1
        self.faults[one.fault] = self.faults.get(one.fault, 0) + 1
        present = [end for end in ends if end]
        self.calls += sum(end.calls for end in present)
        self.refused += sum(end.refused for end in present)
        self.wrong += [end.wrong for end in present if end.wrong]
        digests = {end.digest for end in present}
        if one.fault not in BREAKING and len(digests) > 1:
            self.wrong.append(f"round {one.number} ({one.transport}): results differ between ranks")
        for samples, end in zip(self.samples, ends):
            samples.append(end.sample)

    def growths(self):
        """(process, Growth) of every series of the processes that live through the run."""
        for process, samples in enumerate(self.samples):
            for name in LIMITS:
                yield process, growth(name, [getattr(sample, name) for sample in samples])


def has_network(workers):
    """False, after a sentence, where there is no UCX."""
    one = draw("network", 0, ["network"])
    try:
        ends = workers.run(one)
    except RuntimeError as error:
        print(f"soak: no groups over a network: {error}", flush=True)
        return False
    missing = [end.wrong for end in ends if end and "UNSUPPORTED" in end.wrong]
    if missing:
        print(f"soak: no groups over a network: {missing[0]}", flush=True)
    return not missing


def soak(arguments, workers):
    """Rounds until time is up, one hangs, or an interrupt."""
    transports = list(arguments.transports)
    if "network" in transports and not has_network(workers):
        transports.remove("network")
    run, begin, number = Run(), time.monotonic(), arguments.first
    if not transports:
        run.wrong.append("no group of --transports can form here: nothing was tested")
    while transports and time.monotonic() - begin < arguments.seconds:
        if arguments.rounds and number - arguments.first >= arguments.rounds:
            break
        one = draw(arguments.seed, number, transports)
        try:
            run.add(one, workers.run(one))
        except KeyboardInterrupt:
            break
        except (Hang, RuntimeError) as error:
            run.wrong.append(f"{one}: {error}")
            break
        number += 1
    run.seconds = time.monotonic() - begin
    return run


def report(run):
    """Prints what happened; the number of things that are wrong."""
    rounds = sum(run.rounds.values())
    counts = [", ".join(f"{count} {name}" for name, count in sorted(counted.items()))
              for counted in (run.rounds, run.faults)]
    print(f"{run.seconds:.0f} s, {rounds} rounds ({counts[0]}; faults: {counts[1]}), "
          f"{run.calls} calls, of which {run.refused} are of combinations that are not supported")
    for sentence in run.wrong[:20]:
        print(f"WRONG: {sentence}")
    if rounds < ROUNDS_MIN:
        print(f"fewer than {ROUNDS_MIN} rounds: growth is not judged")
        return len(run.wrong)
    print("| process | | first | last | growth | noise |\n| --- | --- | --- | --- | --- | --- |")
    grown = 0
    for process, one in run.growths():
        grown += one.grows
        print(f"| {process} | {one.name} | {one.first:.0f} | {one.last:.0f} | {one.growth:.1f} | "
              f"{one.noise:.1f} |{' GROWS' if one.grows else ''}")
    return len(run.wrong) + grown


def main():
    arguments = parse_arguments()
    program = arguments.build / "tools/soak-worker"
    if not program.exists():
        print(f"soak: {program} is not there; give --build", file=sys.stderr)
        return 2
    print(f"seed {arguments.seed}, rounds from {arguments.first}", flush=True)
    with Workers(program, SIZE, arguments.leak) as workers:
        run = soak(arguments, workers)
    return 1 if report(run) else 0
