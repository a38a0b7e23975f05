#!/usr/bin/env python3
"""Draws the speed-ups of a page of results as bars: the picture of the README.

    tools/draw_speedup.py docs/results/network.md docs/pictures/speedup.svg

Reads the tables under the headings of SECTIONS, which tools/netbench --markdown writes.
"""

import re
import sys
from html import escape
from pathlib import Path

SECTIONS = {"1 Gbit/s": "#3d7d38", "200 Mbit/s": "#a9cf9f"}
HOSTS = 4
ROWS = {"Gloo float32": "float32, over Gloo", "Gloo float16": "float16, over Gloo",
        "blocks-8": "blocks-8", "blocks-8,bits=4,bits_down=8": "4 bits up, 8 bits down",
        "rice-6": "rice-6", "rotated-4": "rotated-4", "adaptive-4": "adaptive-4",
        "rice-4": "rice-4", "paper-gl4": "paper-gl4"}
LABEL_WIDTH, BAR_WIDTH, BAR_HEIGHT, ROW_HEIGHT, TOP = 190, 400, 10, 32, 30


def tables(page):
    """{rate: {row: speed-up}} of SECTIONS."""
    found = {}
    for rate in SECTIONS:
        start = page.index(f"## {HOSTS} hosts, {rate}\n")
        lines = [[cell.strip(" `") for cell in line.strip("|").split("|")]
                 for line in page[start:].split("\n## ")[0].splitlines() if line.startswith("|")]
        column = lines[0].index("speed-up")
        found[rate] = {line[0]: float(re.match(r"[\d.]+", line[column])[0]) for line in lines[2:]}
    return found


def picture(speedups):
    """SVG; its greys are read on white and on black."""
    shown = [row for row in ROWS if all(row in table for table in speedups.values())]
    scale = BAR_WIDTH / max(table[row] for table in speedups.values() for row in shown)
    parts = _legend()
    for number, row in enumerate(shown):
        y = TOP + number * ROW_HEIGHT
        parts.append(_text(LABEL_WIDTH - 8, y + BAR_HEIGHT + 4, ROWS[row], "end"))
        for k, (rate, color) in enumerate(SECTIONS.items()):
            speedup, bar_y = speedups[rate][row], y + k * (BAR_HEIGHT + 1)
            parts.append(f'<rect x="{LABEL_WIDTH}" y="{bar_y}" width="{scale * speedup:.1f}" '
                         f'height="{BAR_HEIGHT}" fill="{color}"/>')
            parts.append(_text(LABEL_WIDTH + scale * speedup + 5, bar_y + BAR_HEIGHT - 1,
                               f"{speedup:.1f}x", "start", 10))
    width, height = LABEL_WIDTH + BAR_WIDTH + 40, TOP + len(shown) * ROW_HEIGHT
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
            f'width="{width}" height="{height}" font-family="sans-serif" fill="#777777">\n'
            + "\n".join(parts) + "\n</svg>\n")


def _legend():
    parts = [_text(LABEL_WIDTH - 8, 14, "speed-up", "end")]
    for k, (rate, color) in enumerate(SECTIONS.items()):
        x = LABEL_WIDTH + 110 * k
        parts.append(f'<rect x="{x}" y="5" width="{BAR_HEIGHT}" height="{BAR_HEIGHT}" '
                     f'fill="{color}"/>')
        parts.append(_text(x + 16, 14, rate, "start"))
    return parts


def _text(x, y, words, anchor, size=12):
    return (f'<text x="{x:.1f}" y="{y}" font-size="{size}" text-anchor="{anchor}">'
            f"{escape(words)}</text>")


def main():
    page, out = map(Path, sys.argv[1:])
    speedups = tables(page.read_text())
    out.write_text(picture(speedups))
    for row in ROWS:
        if not all(row in table for table in speedups.values()):
            print(f"{page} has no row {row} at every rate: it is not in the picture",
                  file=sys.stderr)


if __name__ == "__main__":
    main()
