"""The table of what happened at all instants."""

import statistics

from .instant import KINDS

_HEAD = ("what happens", "instants", "ranks that must notice", "hung", "wrong", "late",
         "promised, ms", "median, ms", "worst, ms", "destroy: median, ms", "worst, ms")


def table(verdicts):
    """Lines of Markdown; one row per kind, in the order of KINDS, and one of all."""
    rows = [_row(name, [verdict for verdict in verdicts if verdict.kind == name])
            for name in KINDS if any(verdict.kind == name for verdict in verdicts)]
    rows.append(_row("all", verdicts))
    lines = [_HEAD, ["---"] * len(_HEAD), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _row(name, verdicts):
    waited = [wait for verdict in verdicts for wait in verdict.waited_ms]
    destroyed = [wait for verdict in verdicts for wait in verdict.destroyed_ms]
    hung = sum(verdict.hung for verdict in verdicts)
    promised = str(KINDS[name].limit_ms) if name in KINDS else ""
    return (name, str(len(verdicts)), str(len(waited)), str(hung),
            str(sum(len(verdict.wrong) for verdict in verdicts)),
            str(sum(len(verdict.late) for verdict in verdicts)), promised,
            *(_shown(waited, function) if name in KINDS else ""
              for function in (statistics.median, max)),
            *(_shown(destroyed, function) for function in (statistics.median, max)))


def _shown(values, function):
    return f"{function(values):.1f}" if values else "-"
