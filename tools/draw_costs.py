#!/usr/bin/env python3
"""Draws what calls cost: bandwidth over size, speed-up over link rate, time over ranks.

    GQSGD_LIBRARY=B/libgqsgd.so tools/draw_costs.py docs/pictures [--perf p.json] [--net n.json]

Needs matplotlib. Curves are those of gqsgd.predict_time. --perf: rows of gqsgd-perf --json, drawn
as bandwidth_over_size.svg. --net: points for the speed-up, a list of {"bits": "8/8",
"mbit_per_s": .., "speedup": ..}.
"""

import argparse
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "bindings/python"))

import matplotlib  # noqa: E402

matplotlib.use("svg")
matplotlib.rcParams["svg.hashsalt"] = "gqsgd"  # the same numbers give the same file
matplotlib.rcParams["font.size"] = 9

import gqsgd  # noqa: E402
import matplotlib.pyplot as plt  # noqa: E402
import numpy as np  # noqa: E402

VALUES = 6_553_600
HOSTS = 4
# Bits up and down, and the preset that has them.
WIDTHS = {"8/8": "rotated-8", "4/8": "rotated-4-8", "4/4": "rotated-4"}
COLORS = {"8/8": "#3d7d38", "4/8": "#d9822b", "4/4": "#a83232"}
SCHEDULES = ("ring", "tree", "butterfly", "direct")


def constants(mbit_per_s):
    """A network of this rate; everything else is built in."""
    return f"byte_ns = {8000 / mbit_per_s:.6g}\n"


def fastest_none(ranks, values, text):
    q = gqsgd.Quantizer("none")
    return min(gqsgd.predict_time(q, ranks, values, s, constants=text) for s in SCHEDULES)


def new_axes(title, x, y):
    figure, axes = plt.subplots(figsize=(7.2, 4.2), layout="constrained")
    axes.set(xlabel=x, ylabel=y, xscale="log")
    axes.set_title(title, loc="left", fontsize=10)
    axes.grid(True, which="major", color="#dddddd", linewidth=0.6)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    return figure, axes


def save(figure, path):
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def draw_speedup(path, points):
    figure, axes = new_axes(
        f"Speed-up over float32, {HOSTS} hosts, {VALUES:,} values, direct",
        "link, Mbit/s", "times faster than the fastest float32")
    rates = np.geomspace(50, 100_000, 60)
    for bits, preset in WIDTHS.items():
        q = gqsgd.Quantizer(preset)
        curve = [fastest_none(HOSTS, VALUES, constants(rate))
                 / gqsgd.predict_time(q, HOSTS, VALUES, "direct", constants=constants(rate))
                 for rate in rates]
        axes.plot(rates, curve, color=COLORS[bits], label=f"{bits} bits ({preset})")
        there = [point for point in points if point["bits"] == bits]
        axes.plot([p["mbit_per_s"] for p in there], [p["speedup"] for p in there], "o",
                  color=COLORS[bits])
    axes.axhline(1, color="#888888", linewidth=0.8)
    axes.legend(frameon=False)
    save(figure, path)


def draw_scaling(path):
    figure, axes = new_axes(f"Predicted time, {VALUES:,} values, paper-ge8, 10 Gbit/s", "ranks",
                            "milliseconds")
    axes.set_yscale("log")
    ranks = np.unique(np.round(np.geomspace(2, 100_000, 40)).astype(int))
    q = gqsgd.Quantizer("paper-ge8")
    for schedule in SCHEDULES:
        times = [1e3 * gqsgd.predict_time(q, int(n), VALUES, schedule) for n in ranks]
        axes.plot(ranks, times, label=schedule)
    plain = [1e3 * fastest_none(int(n), VALUES, "") for n in ranks]
    axes.plot(ranks, plain, color="black", linestyle=":", label="float32, its fastest schedule")
    axes.legend(frameon=False)
    save(figure, path)


def draw_bandwidth(path, report):
    figure, axes = new_axes(
        f"Bandwidth, {report['ranks']} ranks, {report['transport']}", "bytes of float32",
        "busbw, GB/s")
    lines = {}
    for row in report["rows"]:
        if row["size"] > 0:
            lines.setdefault((row["format"], row["schedule"]), []).append(
                (row["size"], row["out_of_place"]["busbw"]))
    for (text, schedule), line in lines.items():
        axes.plot(*zip(*line), marker=".", linestyle=":" if text == "none" else "-",
                  label=f"{text}, {schedule}")
    axes.set_xscale("log", base=2)
    axes.legend(frameon=False, fontsize=8)
    save(figure, path)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path, help="where the pictures go")
    parser.add_argument("--perf", type=pathlib.Path, help="rows of gqsgd-perf --json")
    parser.add_argument("--net", type=pathlib.Path, help="measured speed-ups over a network")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    points = json.loads(arguments.net.read_text()) if arguments.net else []
    draw_speedup(arguments.folder / "speedup_over_rate.svg", points)
    draw_scaling(arguments.folder / "scaling.svg")
    if arguments.perf:
        draw_bandwidth(arguments.folder / "bandwidth_over_size.svg",
                       json.loads(arguments.perf.read_text()))


if __name__ == "__main__":
    main()
