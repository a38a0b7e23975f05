"""Turns outcomes into one table and one picture of the loss curves."""

from dataclasses import dataclass

import numpy as np

SMOOTHING_SHARE = 0.02  # of a run's steps, for the drawn curve only


@dataclass(frozen=True)
class Row:
    """One method on one task with one optimizer, over all seeds and ranks."""

    title: str  # task and optimizer
    method: str
    accuracies: np.ndarray  # one per seed
    losses: np.ndarray  # one per step, mean over seeds and ranks
    bytes_sent: float  # per step and rank
    seconds: float  # per run
    mean_error: float
    identical: bool  # all ranks ended every run with the same bits

    @property
    def spread(self):
        """Standard deviation of the accuracy over seeds; NaN for one seed."""
        return self.accuracies.std(ddof=1) if len(self.accuracies) > 1 else float("nan")

    def is_below(self, base):
        """True if the mean accuracy is below that of `base` by more than the seeds' spread."""
        gap = base.accuracies.mean() - self.accuracies.mean()
        return bool(gap > max(self.spread, base.spread))


def summarise(runs, outcomes):
    """Rows in the order in which (title, method) first appear in `runs`."""
    groups = {}
    for run, by_rank in zip(runs, outcomes, strict=True):
        groups.setdefault((run.title, run.method), []).append(by_rank)
    return [_row(*key, seeds) for key, seeds in groups.items()]


def _row(title, method, seeds):
    everyone = [outcome for by_rank in seeds for outcome in by_rank]
    firsts = [by_rank[0] for by_rank in seeds]
    return Row(
        title, method,
        accuracies=np.array([first.accuracy for first in firsts]),
        losses=np.mean([outcome.losses for outcome in everyone], axis=0),
        bytes_sent=float(np.mean([outcome.bytes_sent_per_step for outcome in everyone])),
        seconds=float(np.mean([first.seconds for first in firsts])),
        mean_error=float(np.mean([first.mean_errors for first in firsts])),
        identical=all(len({outcome.weights_digest for outcome in by_rank}) == 1
                      for by_rank in seeds))


COLUMNS = ["data", "method", "test accuracy", "bytes/step/rank", "fewer bytes", "seconds",
           "error of mean", "replicas"]


def table(rows):
    """The table as text, one line per row, columns aligned."""
    base = {row.title: row for row in rows if row.method == "none"}
    lines = [COLUMNS] + [_cells(row, base.get(row.title)) for row in rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(COLUMNS))]
    lines.insert(1, ["-" * width for width in widths])
    return "\n".join(
        "  ".join(cell.ljust(width) if i < 2 else cell.rjust(width)
                  for i, (cell, width) in enumerate(zip(line, widths, strict=True)))
        for line in lines)


def _cells(row, base):
    spread = f" +- {100 * row.spread:.2f}" if len(row.accuracies) > 1 else ""
    mark = " LOW" if base and row.is_below(base) else ""
    return [row.title, row.method, f"{100 * row.accuracies.mean():.2f}{spread} %{mark}",
            f"{row.bytes_sent:,.0f}",
            f"{base.bytes_sent / row.bytes_sent:.2f}x" if base and row.bytes_sent else "-",
            f"{row.seconds:.2f}", f"{row.mean_error:.1e}",
            "identical" if row.identical else "DIFFERENT"]


STYLES = ["-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1))]  # curves overlap: colour is not enough


def draw(rows, path):
    """One panel per task, one line per method; writes a PNG."""
    import matplotlib
    matplotlib.use("Agg")  # no display is needed
    from matplotlib import pyplot, ticker

    class Decimals(ticker.LogFormatter):
        """0.1, not 10^-1 or 1e-01, at the same ticks."""

        def __call__(self, value, place=None):
            return f"{value:g}" if super().__call__(value, place) else ""

    titles = list(dict.fromkeys(row.title for row in rows))
    figure, panels = pyplot.subplots(1, len(titles), figsize=(6.5 * len(titles), 4.5),
                                     squeeze=False, layout="constrained")
    for title, panel in zip(titles, panels[0], strict=True):
        for i, row in enumerate(row for row in rows if row.title == title):
            window = max(1, round(SMOOTHING_SHARE * len(row.losses)))
            smooth = np.convolve(row.losses, np.full(window, 1 / window), mode="valid")
            panel.plot(np.arange(len(smooth)) + window, smooth, label=row.method,
                       linestyle=STYLES[i % len(STYLES)], linewidth=1.8)
        panel.set(title=title, xlabel="training step", yscale="log",
                  ylabel="training loss (cross-entropy)")
        panel.yaxis.set_major_formatter(Decimals())
        panel.yaxis.set_minor_formatter(Decimals())
        panel.grid(True, which="both", alpha=0.3)
        panel.legend(title="quantizer")
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
