#!/usr/bin/env python3
"""Draws one picture per schedule: ranks from top to bottom, time from left to right.

    tools/draw_schedules.py BUILD/tools/gqsgd-plan docs/pictures

Needs matplotlib. The moves and their times come from the library's own schedules, as
gqsgd-plan --timeline prints them; nothing here knows a schedule.
"""

import argparse
import csv
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from study_lib.drawing import can_draw  # noqa: E402

if not can_draw():
    sys.exit(1)

import matplotlib  # noqa: E402

matplotlib.use("svg")
matplotlib.rcParams["svg.hashsalt"] = "gqsgd"  # the same moves give the same file
matplotlib.rcParams["font.size"] = 9

import matplotlib.pyplot as plt  # noqa: E402
from matplotlib.lines import Line2D  # noqa: E402
from matplotlib.patches import Patch  # noqa: E402

CHUNK = 1024
NODES = {"hierarchical": "0:0:1:1"}

# name: (ranks, chunks in the call, what the picture shows)
PICTURES = {
    "ring": (4, 4, "one chunk per part"),
    "tree": (4, 5, "five chunks"),
    "butterfly": (5, 4, "one chunk per part; rank 4 is folded into rank 0"),
    "direct": (4, 4, "one chunk per part"),
    "hierarchical": (4, 4, "two nodes of two; one chunk per shard"),
}

STAGES = {
    "quantize": ("#b8c4d6", "quantize"),
    "reduce": ("#d9822b", "reduce in code form"),
    "reduce_many": ("#a83232", "reduce_many: wide sum, one re-encode"),
    "dequantize": ("#8fb98b", "dequantize"),
}
CODES = "#5a6b85"
RESULTS = "#3d7d38"


def read_timeline(program, schedule, ranks, chunks):
    """The rows of gqsgd-plan --timeline, numbers as numbers."""
    command = [program, "--timeline", "--format", "paper-ge8", "--schedule", schedule,
               "--ranks", str(ranks), "--count", str(chunks * CHUNK), "--chunk", str(CHUNK),
               "--shared-memory"]
    if schedule in NODES:
        command += ["--nodes", NODES[schedule]]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    rows = list(csv.DictReader(text.splitlines(), delimiter="\t"))
    for row in rows:
        for field, value in row.items():
            if field != "kind":
                row[field] = float(value) if field in ("start", "end") else int(value)
    return rows


def message_kinds(rows):
    """True for each send that carries a result, in the order in which the peer receives them."""
    received = {}
    for row in rows:
        if row["kind"].startswith("receive"):
            received.setdefault((row["peer"], row["rank"]), []).append(row["kind"])
    return received


def draw_stages(axes, rows):
    for row in rows:
        if row["kind"] in STAGES and row["end"] > row["start"]:
            axes.barh(row["rank"], row["end"] - row["start"], left=row["start"], height=0.34,
                      color=STAGES[row["kind"]][0], edgecolor="white", linewidth=0.5, zorder=3)
            if row["kind"] == "reduce":
                axes.text((row["start"] + row["end"]) / 2, row["rank"], str(row["hop"]), zorder=4,
                          ha="center", va="center", fontsize=7, color="white")


def draw_messages(axes, rows):
    received = message_kinds(rows)
    for row in rows:
        if row["kind"] != "send":
            continue
        is_result = received[row["rank"], row["peer"]].pop(0) == "receive_result"
        down = 1 if row["peer"] > row["rank"] else -1
        axes.annotate("", xy=(row["end"], row["peer"] - 0.18 * down),
                      xytext=(row["start"], row["rank"] + 0.18 * down), zorder=2,
                      arrowprops={"arrowstyle": "-|>", "shrinkA": 0, "shrinkB": 0, "linewidth": 1,
                                  "color": RESULTS if is_result else CODES})


def legend_entries(rows):
    kinds = {row["kind"] for row in rows}
    patches = [Patch(color=color, label=text) for kind, (color, text) in STAGES.items()
               if kind in kinds]
    lines = [Line2D([], [], color=CODES, label="codes"),
             Line2D([], [], color=RESULTS, label="results")]
    return patches + lines


def caption_of_time(rows):
    """What the axis says: of hops only where a reduction has one drawn in it."""
    has_hops = any(row["kind"] == "reduce" for row in rows)
    hops = "; the number in a reduction is its hop" if has_hops else ""
    return f"time, in messages of one chunk{hops}"


def draw(schedule, ranks, caption, rows, path):
    figure, axes = plt.subplots(figsize=(8.4, 0.62 * ranks + 1.3), layout="constrained")
    draw_stages(axes, rows)
    draw_messages(axes, rows)
    axes.set_title(f"{schedule}, {ranks} ranks, {caption}", loc="left", fontsize=10)
    axes.set_yticks(range(ranks), [f"rank {rank}" for rank in range(ranks)])
    axes.set_ylim(ranks - 0.5, -0.5)
    axes.set_xlim(0, max(row["end"] for row in rows) + 0.1)
    axes.set_xlabel(caption_of_time(rows))
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.tick_params(axis="y", length=0)
    entries = legend_entries(rows)
    figure.legend(handles=entries, loc="outside lower center", ncols=len(entries), frameon=False,
                  fontsize=8)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("gqsgd_plan", help="the program, as built or installed")
    parser.add_argument("folder", type=pathlib.Path, help="where the pictures go")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for schedule, (ranks, chunks, caption) in PICTURES.items():
        rows = read_timeline(arguments.gqsgd_plan, schedule, ranks, chunks)
        draw(schedule, ranks, caption, rows, arguments.folder / f"{schedule}.svg")


if __name__ == "__main__":
    main()
