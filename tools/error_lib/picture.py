"""The pictures: error against bytes with everything in it, and error against ranks."""

import matplotlib

matplotlib.use("Agg")  # no display is needed
matplotlib.rcParams["svg.hashsalt"] = "gqsgd"  # the same numbers give the same file
matplotlib.rcParams["font.size"] = 9

from matplotlib import pyplot  # noqa: E402

from .peers import PEERS  # noqa: E402
from .schemes import SCHEMES  # noqa: E402

COLUMN_COUNT = 4
FLOOR = 1e-6  # what is below, exact results too, is drawn here
_PAPER, _BLOCKS, _ROTATED, _RELATIVE = "#3b6fb6", "#2e8b57", "#c0392b", "#8e44ad"
_FAMILIES = (("none", "black"), ("paper", _PAPER), ("blocks", _BLOCKS),
             ("levels=linear,bits=8,block", _BLOCKS), ("rotated", _ROTATED),
             ("relative", _RELATIVE))
_OUR_MARKERS = "osD^vPX*"
_PEER_MARKERS = "os^vD<>ph*X"
_CURVES = ("paper-gl8 direct", "paper-ge8 tree", "blocks-8 direct", "rotated-8 direct",
           "rotated-4 direct", "rotated-4-8 direct", "relative-8 direct",
           "int8 two-shot, scale per 128, nearest", "int8 two-shot, scale per 128, random",
           "int4 two-shot, scale per 32, nearest", "int4 two-shot, scale per 128, random")


def draw_all(table, rank_count, folder, suffixes=("svg", "png")):
    """error_per_byte and error_by_ranks; the first takes the nearest number of ranks there is."""
    folder.mkdir(parents=True, exist_ok=True)
    counts = sorted({n for _, n in table})
    chosen = min(counts, key=lambda n: abs(n - rank_count))
    _save(_error_per_byte(table, chosen), folder, "error_per_byte", suffixes)
    _save(_error_by_ranks(table, counts), folder, "error_by_ranks", suffixes)


def styles():
    """{scheme's name: how it is drawn}: ours coloured, peers grey, those that are biased hollow."""
    found, used = {}, {}
    for scheme in SCHEMES:
        color = next((color for start, color in _FAMILIES if scheme.text.startswith(start)), None)
        if color is not None:
            used[color] = used.get(color, -1) + 1
            found[scheme.name] = {"color": color, "marker": _OUR_MARKERS[used[color]],
                                  "markeredgecolor": "white", "markeredgewidth": 0.5, "zorder": 3}
    for number, peer in enumerate(PEERS):
        found[peer.name] = {"color": "0.35", "marker": _PEER_MARKERS[number % len(_PEER_MARKERS)],
                            "markerfacecolor": "0.6" if peer.unbiased else "none"}
    return found


def _panels(table):
    """(figure, {data: axes}) with one panel for each kind of data, axes in common."""
    data = list(dict.fromkeys(name for name, _ in table))
    columns = min(COLUMN_COUNT, len(data))
    rows = -(-len(data) // columns)
    figure, axes = pyplot.subplots(rows, columns, figsize=(4.2 * columns + 0.2, 4.4 * rows + 1.8),
                                   squeeze=False, sharex=True, sharey=True, layout="constrained")
    for unused in axes.flat[len(data):]:
        unused.set_visible(False)
    for name, panel in zip(data, axes.flat):
        panel.set_title(name, loc="left", fontsize=10)
        panel.set(xscale="log", yscale="log")
        panel.grid(True, which="major", alpha=0.3, linewidth=0.6)
    figure.supylabel(f"|G - mean|^2 / |mean|^2;  0 and what is below {FLOOR:g} is drawn there")
    return figure, dict(zip(data, axes.flat))


def _ticks(panel, positions):
    panel.set_xticks(positions, [f"{position:g}" for position in positions])
    panel.tick_params(labelbottom=True)
    panel.minorticks_off()


def _error_per_byte(table, rank_count):
    figure, panels = _panels(table)
    for data, panel in panels.items():
        for name, style in styles().items():
            cell = table[data, rank_count][name]
            if cell.error is not None:
                panel.plot([cell.bytes_per_value], [max(cell.error, FLOOR)], linestyle="",
                           markersize=7.5, label=_label(name), **style)
        _ticks(panel, (0.5, 1, 2, 4, 8, 16))
        panel.set_xlabel(f"bytes sent per value and rank, {rank_count} ranks")
    _legend(figure, panels, columns=4)
    return figure


def _error_by_ranks(table, counts):
    figure, panels = _panels(table)
    for data, panel in panels.items():
        for name in _CURVES:
            cells = [(n, table[data, n][name]) for n in counts]
            drawn = [(n, max(cell.error, FLOOR)) for n, cell in cells if cell.error is not None]
            if drawn:
                is_peer = any(peer.name == name for peer in PEERS)
                panel.plot(*zip(*drawn), linestyle="--" if is_peer else "-", linewidth=1.2,
                           markersize=5, label=_label(name), **styles()[name])
        _ticks(panel, counts)
        panel.set_xlabel("ranks")
    _legend(figure, panels, columns=3)
    return figure


def _label(name):
    return name.removesuffix(" direct")


def _legend(figure, panels, columns):
    entries = {}
    for panel in panels.values():
        for handle, label in zip(*panel.get_legend_handles_labels()):
            entries.setdefault(label, handle)
    figure.legend(entries.values(), entries.keys(), loc="outside lower center", ncols=columns,
                  frameon=False)


def _save(figure, folder, name, suffixes):
    for suffix in suffixes:
        metadata = {"Date": None} if suffix == "svg" else None
        figure.savefig(folder / f"{name}.{suffix}", dpi=110, metadata=metadata)
    pyplot.close(figure)
