"""The demo: trains every (task, method, seed), prints the table, draws the PNG."""

import signal
import sys
import time
from dataclasses import replace

from .arguments import parse_arguments
from .ranks import RanksFailed, train_all
from .training import MEASURED_STEPS, Run


def plan(arguments):
    """The list of trainings. A seed's methods follow each other, so that they share its noise."""
    import gqsgd

    from .data import prepare

    try:
        for method in arguments.presets:
            gqsgd.Quantizer(method)
    except gqsgd.GqsgdError as refusal:
        raise SystemExit(str(refusal)) from None
    tasks = prepare(arguments.out / "data")
    if arguments.data:
        unknown = set(arguments.data) - {task.name for task in tasks}
        if unknown:
            raise SystemExit(f"no such data here: {', '.join(sorted(unknown))}; "
                             f"there is {', '.join(task.name for task in tasks)}")
        tasks = [task for task in tasks if task.name in arguments.data]
    if arguments.steps:
        tasks = [replace(task, step_count=arguments.steps) for task in tasks]
    return [Run(task, method, seed, arguments.schedule, optimizer, arguments.kill)
            for task in tasks for optimizer in arguments.optimizers
            for seed in range(arguments.seeds) for method in arguments.presets]


class Progress:
    """One line per finished run; on a terminal also a line that moves while it trains."""

    def __init__(self, runs):
        self.runs, self.moving = runs, sys.stdout.isatty()

    def __call__(self, index, step, loss):
        run = self.runs[index]
        head = (f"[{index + 1:2d}/{len(self.runs)}] {run.title:19s} {run.method:11s} "
                f"seed {run.seed}")
        if step is None:
            print(f"{head}  {run.task.step_count} steps, loss {loss:.4f}   ", flush=True)
        elif self.moving:
            print(f"{head}  step {step}/{run.task.step_count}, loss {loss:.4f}   ", end="\r",
                  flush=True)


def main():
    # A polite end is an exception, so that the ranks are killed on the way out.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    arguments = parse_arguments()
    begin = time.monotonic()
    runs = plan(arguments)
    print(f"{arguments.ranks} processes, {len(runs)} trainings", flush=True)
    try:
        outcomes = train_all(runs, arguments.ranks, Progress(runs))
    except RanksFailed as failure:
        print(f"\nThe training failed:\n{failure}", file=sys.stderr)
        return 1

    from .report import draw, summarise, table
    rows = summarise(runs, outcomes)
    picture = arguments.out / "loss.png"
    draw(rows, picture)
    print(f"\n{table(rows)}\n")
    print(f"test accuracy: mean and standard deviation over {arguments.seeds} seeds; "
          "every method starts from the same weights and sees the same batches;\n"
          "    LOW marks a mean that is below that of none by more than this spread\n"
          "seconds: one training; between processes of one machine bytes are cheap, so fewer of "
          "them save little time\n"
          "error of mean: |G - mean|^2 / |mean|^2 against the exact mean gradient in float64, "
          f"{MEASURED_STEPS} steps per training\n"
          f"loss curves: {picture}\n"
          f"total: {time.monotonic() - begin:.0f} s")
    if not all(row.identical for row in rows):
        print("The ranks ended with different weights: this must never happen.", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("\nStopped; all ranks are gone.", file=sys.stderr)
        sys.exit(128 + signal.SIGINT)
