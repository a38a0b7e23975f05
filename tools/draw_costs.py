#!/usr/bin/env python3
"""Draws what calls cost: speed-up over link rate, time over ranks.

    GQSGD_LIBRARY=B/libgqsgd.so tools/draw_costs.py docs/pictures [--costs c.txt] [--net n.json]

Needs matplotlib. Curves are those of gqsgd.predict_time; the constants of processors in the
speed-up are those of --costs (of gqsgd-calibrate; default: built in). --net: points for the
speed-up, what tools/netbench --json wrote.
"""

import argparse
import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "bindings/python"))

from study_lib.drawing import can_draw  # noqa: E402

if not can_draw():
    sys.exit(1)

import matplotlib  # noqa: E402

matplotlib.use("svg")
matplotlib.rcParams["svg.hashsalt"] = "gqsgd"  # the same numbers give the same file
matplotlib.rcParams["font.size"] = 9

import gqsgd  # noqa: E402
import matplotlib.pyplot as plt  # noqa: E402
import numpy as np  # noqa: E402

VALUES = 6_553_600
HOSTS = 4
# Bits up and down, and a format that has them.
WIDTHS = {"8/8": "blocks-8", "4/8": "blocks-8,bits=4,bits_down=8", "4/4": "paper-gl4"}
COLORS = {"8/8": "#3d7d38", "4/8": "#d9822b", "4/4": "#a83232"}
SCHEDULES = ("ring", "tree", "butterfly", "direct")


def constants(mbit_per_s, costs=""):
    """A network of this rate between processors of `costs`."""
    kept = [line for line in costs.splitlines() if line.split("=")[0].strip() != "byte_ns"]
    return "\n".join([*kept, f"byte_ns = {8000 / mbit_per_s:.6g}"]) + "\n"


def rate_of(text):
    """Mbit/s of a rate as netbench has it."""
    number, unit = re.fullmatch(r"([\d.]+)([mg])bit", text).groups()
    return float(number) * {"m": 1, "g": 1000}[unit]


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


def draw_speedup(path, costs, runs):
    points = "; points: netbench, against Gloo" if runs else ""
    figure, axes = new_axes(
        f"Speed-up over float32, {HOSTS} hosts, {VALUES:,} values, direct{points}",
        "link, Mbit/s", "times faster than float32")
    rates = np.geomspace(50, 100_000, 60)
    for bits, spec in WIDTHS.items():
        q = gqsgd.Quantizer(spec)
        curve = []
        for rate in rates:
            there = constants(rate, costs)
            time = gqsgd.predict_time(q, HOSTS, VALUES, "direct", constants=there)
            curve.append(fastest_none(HOSTS, VALUES, there) / time)
        axes.plot(rates, curve, color=COLORS[bits], label=f"{bits} bits ({spec})")
        measured = [(rate_of(run["rate"]), row["speedup"]) for run in runs for row in run["rows"]
                    if row["name"] == spec and (run["hosts"], run["count"]) == (HOSTS, VALUES)]
        if measured:
            axes.plot(*zip(*measured), "o", color=COLORS[bits])
    axes.axhline(1, color="#888888", linewidth=0.8)
    axes.legend(frameon=False, loc="lower left")
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


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path, help="where the pictures go")
    parser.add_argument("--net", type=pathlib.Path, help="what netbench --json wrote")
    parser.add_argument("--costs", type=pathlib.Path, help="what gqsgd-calibrate wrote")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    costs = arguments.costs.read_text() if arguments.costs else ""
    runs = json.loads(arguments.net.read_text())["runs"] if arguments.net else []
    draw_speedup(arguments.folder / "speedup_over_rate.svg", costs, runs)
    draw_scaling(arguments.folder / "scaling.svg")


if __name__ == "__main__":
    main()
