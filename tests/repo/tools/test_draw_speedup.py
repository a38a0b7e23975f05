"""tools/draw_speedup.py: the README's picture and table have the numbers of the results page."""

import re

import pytest


@pytest.fixture
def draw(load_tool):
    return load_tool("draw_speedup.py")


@pytest.fixture
def speedups(root, draw):
    return draw.tables((root / "docs/results/network.md").read_text())


def test_the_picture_is_drawn_from_the_page(root, draw, speedups):
    assert (root / "docs/pictures/speedup.svg").read_text() == draw.picture(speedups)


def test_a_bar_is_as_long_as_its_speedup(draw):
    svg = draw.picture({rate: {"Gloo float32": 1.0, "blocks-8": 4.0} for rate in draw.SECTIONS})
    widths = [float(width) for width in re.findall(r'width="([\d.]+)" height="10"', svg)][2:]
    assert widths == [100.0, 100.0, 400.0, 400.0]


def test_the_readme_has_the_speedups_of_the_page(root, speedups):
    readme = (root / "README.md").read_text()
    rows = re.findall(r"^\| `([^`]+)`[^|]*\| ([\d.]+) \| ([\d.]+) \|", readme, re.MULTILINE)
    assert {"float16", "blocks-8"} <= {name for name, *_ in rows}
    for name, *shown in rows:
        row = "Gloo float16" if name == "float16" else name
        measured = [speedups[rate][row] for rate in ("1 Gbit/s", "200 Mbit/s")]
        assert [float(number) for number in shown] == [round(number, 1) for number in measured]
