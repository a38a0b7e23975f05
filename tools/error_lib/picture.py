"""The pictures: error by scheme with the bytes that it sends, and error by ranks. A choice of data
and schemes, each labelled where it is drawn; the tables have all of them."""

import math

import matplotlib

matplotlib.use("Agg")  # no display is needed
matplotlib.rcParams["svg.hashsalt"] = "gqsgd"  # the same numbers give the same file
matplotlib.rcParams["font.size"] = 9

from matplotlib import pyplot  # noqa: E402

from .peers import PEERS  # noqa: E402

PANELS = {"gauss": "normal values", "heavy": "heavy tails",
          "Fashion-MNIST step 45": "gradients, Fashion-MNIST",
          "digits step 600": "gradients, digits, late"}
_PAPER, _BLOCKS, _ROTATED = "#3b6fb6", "#2e8b57", "#c0392b"
_ADAPTIVE, _RICE, _PEER = "#7d3c98", "#c77700", "0.35"
# Scheme: label and colour, in the order of rows; those of other systems are grey.
_ROWS = {
    "bfloat16 two-shot, random": ("bfloat16", _PEER),
    "rotated-8 direct": ("rotated-8", _ROTATED),
    "blocks-8 direct": ("blocks-8", _BLOCKS),
    "int8 two-shot, scale per 128, random": ("int8, random", _PEER),
    "paper-gl8 direct": ("paper-gl8, direct", _PAPER),
    "rice-6 direct": ("rice-6", _RICE),
    "rotated-4-8 direct": ("rotated-4-8", _ROTATED),
    "rice-4 direct": ("rice-4", _RICE),
    "adaptive-4 direct": ("adaptive-4", _ADAPTIVE),
    "int4 two-shot, scale per 128, random": ("int4, random", _PEER),
    "int4 two-shot, scale per 128, nearest": ("int4, nearest", _PEER),
    "paper-gl4 tree": ("paper-gl4, tree", _PAPER),
}
_CURVES = ("paper-gl8 direct", "blocks-8 direct", "rotated-8 direct", "rotated-4-8 direct",
           "adaptive-4 direct", "rice-4 direct", "int8 two-shot, scale per 128, random",
           "int4 two-shot, scale per 128, random")
_BIASED = {peer.name for peer in PEERS if not peer.unbiased}


def draw_all(table, rank_count, folder, suffixes=("svg", "png")):
    """error_per_byte and error_by_ranks; the first takes the nearest number of ranks there is."""
    folder.mkdir(parents=True, exist_ok=True)
    panels = panels_of(table)
    counts = sorted({n for name, n in table if name in panels})
    chosen = min(counts, key=lambda n: abs(n - rank_count))
    _save(_error_per_byte(table, chosen), folder, "error_per_byte", suffixes)
    _save(_error_by_ranks(table, counts), folder, "error_by_ranks", suffixes)


def panels_of(table):
    """{data: title} of the panels: those of PANELS that were measured, or the first four."""
    measured = list(dict.fromkeys(name for name, _ in table))
    return ({name: title for name, title in PANELS.items() if name in measured}
            or {name: name for name in measured[:4]})


def _axes_of(figure, grid, titles):
    """{data: axes} in a row or a square, with the look that both pictures have."""
    for title, panel in zip(titles.values(), grid.flat):
        panel.set_title(title, loc="left", fontsize=9)
        for side in ("top", "right"):
            panel.spines[side].set_visible(False)
    for unused in list(grid.flat)[len(titles):]:
        unused.set_visible(False)
    return dict(zip(titles, grid.flat))


def _error_per_byte(table, rank_count):
    """A row for each scheme, most bytes first; a point is its error on the data of its panel."""
    titles = panels_of(table)
    figure, grid = pyplot.subplots(1, len(titles), figsize=(8.6, 3.9), sharex=True, sharey=True,
                                   squeeze=False, layout="constrained")
    panels = _axes_of(figure, grid, titles)
    for data, panel in panels.items():
        for row, (name, (_, color)) in enumerate(_ROWS.items()):
            error = table[data, rank_count][name].error
            if error is not None:
                panel.plot([error], [row], "o", markersize=6, color=color,
                           markerfacecolor="white" if name in _BIASED else color)
        panel.set_xscale("log")
        panel.grid(True, which="major", color="#dddddd", linewidth=0.6)
        panel.set_axisbelow(True)
        panel.minorticks_off()
    first = grid[0, 0]
    bytes_of = table[next(iter(titles)), rank_count]
    first.set_yticks(range(len(_ROWS)), [f"{label}   {bytes_of[name].bytes_per_value:.2f}"
                                         for name, (label, _) in _ROWS.items()])
    for tick, (_, color) in zip(first.get_yticklabels(), _ROWS.values()):
        tick.set_color(color)
    first.set_ylim(len(_ROWS) - 0.5, -0.5)
    figure.suptitle(f"{rank_count} ranks; after each name the bytes that a rank sends for a value. "
                    "Coloured: this library; grey: others, hollow where biased", x=0.01, ha="left",
                    fontsize=9)
    figure.supxlabel("squared error of the mean over its square; left is better", fontsize=9)
    return figure


def _error_by_ranks(table, counts):
    titles = panels_of(table)
    rows = -(-len(titles) // 2)
    figure, grid = pyplot.subplots(rows, min(2, len(titles)), figsize=(8.6, 3.2 * rows + 0.3),
                                   sharex=True, sharey=True, squeeze=False, layout="constrained")
    for data, panel in _axes_of(figure, grid, titles).items():
        ends = []
        for name in _CURVES:
            label, color = _ROWS[name]
            points = [(n, table[data, n][name].error) for n in counts
                      if (data, n) in table]
            points = [(n, error) for n, error in points if error]
            if points:
                panel.plot(*zip(*points), color=color, marker="o", markersize=3, linewidth=1.2,
                           linestyle="--" if color == _PEER else "-")
                ends.append((points[-1][1], label, color))
        panel.set(xscale="log", yscale="log", xlim=(counts[0] * 0.9, counts[-1] * 5.5))
        panel.set_xticks(counts, [str(count) for count in counts])
        panel.tick_params(labelbottom=True, labelleft=True)
        panel.minorticks_off()
        panel.grid(True, axis="y", which="major", color="#dddddd", linewidth=0.6)
        for height, (_, label, color) in zip(_spread(ends), sorted(ends)):
            panel.text(counts[-1] * 1.12, height, label, color=color, fontsize=8, va="center")
    figure.supxlabel("ranks", fontsize=9)
    figure.supylabel("squared error of the mean over its square", fontsize=9)
    return figure


def _spread(ends, gap=math.log(1.8)):
    """Heights of the labels of curves that end at (error, ..), in rising order: their own where
    they are apart, else moved both ways until they are."""
    heights = [math.log(error) for error, *_ in sorted(ends)]
    for _ in range(100):
        for k in range(len(heights) - 1):
            overlap = gap - (heights[k + 1] - heights[k])
            if overlap > 0:
                heights[k] -= overlap / 2
                heights[k + 1] += overlap / 2
    return [math.exp(height) for height in heights]


def _save(figure, folder, name, suffixes):
    for suffix in suffixes:
        metadata = {"Date": None} if suffix == "svg" else None
        figure.savefig(folder / f"{name}.{suffix}", dpi=110, metadata=metadata)
    pyplot.close(figure)
