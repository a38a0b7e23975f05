"""The tables of the run with kills and, if there is one, of the undisturbed run."""

import statistics

from study_lib.markdown import table

from . import evaluation

_LOSSES = 8  # rows of that table


def report(runs):
    """Markdown of [the run with kills, perhaps the undisturbed one]."""
    head = ["with kills", "undisturbed"][:len(runs)]
    equalities = [evaluation.equality(run) for run in runs]
    sizes = [evaluation.steps_by_replicas(run) for run in runs]
    rows = [
        ["steps", *(f"{run.newest_step():,}" for run in runs)],
        *([f"steps of {size} replicas", *(f"{own.get(size, 0):,}" for own in sizes)]
          for size in sorted(set().union(*sizes))),
        ["seconds", *(f"{run.end_s - run.begin_s:.0f}" for run in runs)],
        ["kills", *(str(len(run.victims)) for run in runs)],
        ["from a death to the next committed step",
         *(_spread(evaluation.seconds_to_next_step(run)) for run in runs)],
        ["from a death to the first step of that replica, restarted",
         *(_spread(evaluation.seconds_to_return(run)) for run in runs)],
        ["tries of a step that were discarded", *(str(evaluation.discarded(run)) for run in runs)],
        ["steps of which two replicas or more have parameters",
         *(f"{each.compared:,}" for each in equalities)],
        ["of these, steps at which the parameters differ",
         *(str(len(each.different)) for each in equalities)],
        ["steps of a victim alone, which the others made again",
         *(str(each.repeated) for each in equalities)],
    ]
    return table(["", *head], rows) + "\n" + table(["loss after step", *head], _losses(runs))


def common_losses(runs):
    """[(step, loss of each run)] of the steps of which all runs have one."""
    losses = [run.losses() for run in runs]
    steps = sorted(set.intersection(*map(set, losses)))
    return [(step, *(own[step] for own in losses)) for step in steps]


def _losses(runs):
    common = common_losses(runs)
    stride = max(1, len(common) // _LOSSES)
    shown = common[::-1][::stride][::-1]  # with the last one
    return [[f"{step:,}", *(f"{loss:.3f}" for loss in own)] for step, *own in shown]


def _spread(seconds):
    if not seconds:
        return "-"
    return f"{statistics.median(seconds):.1f} s, at most {max(seconds):.1f} s"
