"""The pictures of the page: losses, speed-ups to the quality, and the map."""

import matplotlib

matplotlib.use("Agg")  # no display is needed
matplotlib.rcParams["svg.hashsalt"] = "gqsgd"  # the same numbers give the same file
matplotlib.rcParams["svg.fonttype"] = "none"
matplotlib.rcParams["font.size"] = 9

from matplotlib import pyplot  # noqa: E402

from . import live  # noqa: E402
from .contenders import FLOAT32  # noqa: E402
from .domains import DOMAINS  # noqa: E402
from .outcome import CURVE_SEED  # noqa: E402

_SHOWN = {FLOAT32: "black", "PowerSGD rank 4": "0.6", "blocks-8": "#2e8b57",
          "rotated-4-8": "#d9822b", "rotated-4": "#c0392b", "paper-gl4": "#3b6fb6",
          "2 bits per tensor, nearest": "#8e44ad"}


def draw(folder, runs, gains, cells, live_runs):
    """live_runs: those of hosts_report."""
    folder.mkdir(parents=True, exist_ok=True)
    _curves(runs).savefig(folder / "evidence_curves.svg", metadata={"Date": None})
    _speedups(gains).savefig(folder / "evidence_speedup.svg", metadata={"Date": None})
    _map(cells).savefig(folder / "evidence_map.svg", metadata={"Date": None})
    if live_runs:
        _live(live_runs).savefig(folder / "evidence_live.svg", metadata={"Date": None})
    pyplot.close("all")


def _live(live_runs):
    """Lines: live; dots: composed of the simulation's steps and the time of a step."""
    settings = list(dict.fromkeys(setting for setting, *_ in live_runs))
    figure, grid = pyplot.subplots(1, len(settings), figsize=(9, 3.6), squeeze=False,
                                   layout="constrained")
    panels = dict(zip(settings, grid.flat, strict=True))
    for setting, name, run, simulated in live_runs:
        axes, color = panels[setting], _SHOWN.get(name, "#3b6fb6")
        _, seconds, losses = zip(*run["curve"][1:])
        axes.plot(seconds, losses, color=color, label=name, linewidth=1.2)
        _, seconds, losses = zip(*live.composed(simulated, run["step_s"])[1:])
        axes.plot(seconds, losses, "o", color=color, markersize=2.5)
    for setting, axes in panels.items():
        axes.axhline(DOMAINS[setting.domain].quality, color="0.8", linewidth=0.8, zorder=0)
        axes.set_title(f"{setting.title}, {live.HOSTS} hosts", loc="left", fontsize=9)
        axes.set_xlabel("seconds")
        _plain(axes)
    grid.flat[0].set_ylabel("loss on held-out data")
    grid.flat[0].legend(frameon=False, fontsize=7)
    return figure


def _curves(runs):
    """The first seed of each; dots where a training has reached the quality."""
    figure, grid = pyplot.subplots(1, len(runs), figsize=(9, 3.2), squeeze=False,
                                   layout="constrained")
    for axes, (domain, own) in zip(grid.flat, runs.items(), strict=True):
        for name, color in _SHOWN.items():
            run = next((run for key, run in own.items()
                        if key.split("/")[1:] == [name, CURVE_SEED]), None)
            if run is None:
                continue
            steps, losses = zip(*run["curve"][1:])
            axes.plot(steps, losses, color=color, label=name, linewidth=1.2)
            if run["steps"]:
                axes.plot([steps[-1]], [losses[-1]], "o", color=color, markersize=4)
        axes.axhline(DOMAINS[domain].quality, color="0.8", linewidth=0.8, zorder=0)
        axes.set_title(domain, loc="left", fontsize=9)
        axes.set_xlabel("step")
        _plain(axes)
    grid.flat[0].set_ylabel("loss on held-out data")
    grid.flat[0].legend(frameon=False, fontsize=7)
    return figure


def _speedups(gains):
    rates = list(next(iter(gains.values())))
    figure, grid = pyplot.subplots(1, len(rates), figsize=(9, 4.6), sharey=True,
                                   layout="constrained")
    names = list(reversed(gains))
    for axes, rate in zip(grid, rates, strict=True):
        values = [gains[name][rate] for name in names]
        colors = [_SHOWN.get(name, "0.75") for name in names]
        axes.barh(range(len(names)), values, color=colors, height=0.7)
        axes.axvline(1, color="black", linewidth=0.6)
        axes.set_title(rate, loc="left", fontsize=9)
        _plain(axes)
    grid[0].set_yticks(range(len(names)), names, fontsize=7)
    figure.supxlabel("speed-up to the quality over float32, predicted", fontsize=9)
    return figure


def _map(cells):
    """A panel for each number of ranks and compute; a square has the gain and what gains it."""
    panels = sorted({cell[:2] for cell in cells})
    rates = sorted({cell[2] for cell in cells})
    sizes = sorted({cell[3] for cell in cells})
    columns = len({compute_s for _, compute_s in panels})
    figure, grid = pyplot.subplots(len(panels) // columns, columns, figsize=(11, 5.4), sharex=True,
                                   sharey=True, squeeze=False, layout="constrained")
    for axes, (ranks, compute_s) in zip(grid.flat, panels, strict=True):
        gain = [[cells[ranks, compute_s, rate, size][0] for rate in rates] for size in sizes]
        axes.imshow(gain, cmap="Greens", vmin=1, vmax=8, aspect="auto", origin="lower")
        for row, size in enumerate(sizes):
            for column, rate in enumerate(rates):
                value, name = cells[ranks, compute_s, rate, size]
                short = name.removeprefix("HookState(").removesuffix(")")  # squares are narrow
                text = "none" if name == FLOAT32 else f"{short}\n{value:.1f}x"
                axes.text(column, row, text, ha="center", va="center", fontsize=5,
                          color="white" if value > 5 else "black")
        axes.set_title(f"{ranks} ranks, {compute_s * 1e3:.0f} ms", loc="left", fontsize=8)
        axes.set_xticks(range(len(rates)), [f"{rate / 1e9:g}" for rate in rates])
        axes.set_yticks(range(len(sizes)), [f"{size / 1e6:g} M" for size in sizes])
    figure.supxlabel("Gbit/s", fontsize=9)
    figure.supylabel("weights", fontsize=9)
    return figure


def _plain(axes):
    axes.grid(True, which="major", color="#e5e5e5", linewidth=0.6)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
