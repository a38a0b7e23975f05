"""The picture of the losses of both runs, with a line at each death."""

import matplotlib

matplotlib.use("Agg")  # no display is needed
matplotlib.rcParams["svg.hashsalt"] = "gqsgd"  # the same numbers give the same file
matplotlib.rcParams["svg.fonttype"] = "none"
matplotlib.rcParams["font.size"] = 9

from matplotlib import pyplot  # noqa: E402

_STYLES = (("with {kills} kills", "#c0392b"), ("undisturbed", "0.4"))


def draw(path, runs):
    figure, axes = pyplot.subplots(figsize=(6.4, 3), layout="constrained")
    for run, (label, color) in zip(runs, _STYLES):
        steps, losses = zip(*sorted(run.losses().items()))
        axes.plot(steps, losses, color=color, linewidth=1.2,
                  label=label.format(kills=len(run.victims)))
    for victim in runs[0].victims:
        axes.axvline(victim.committed()[-1]["step"], color="0.85", linewidth=0.8, zorder=0)
    axes.set_xlabel("step; grey lines are deaths")
    axes.set_ylabel("loss on held-out text")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)
