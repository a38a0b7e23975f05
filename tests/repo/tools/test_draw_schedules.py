"""tools/draw_schedules.py: what the pictures of docs/SCHEDULES.md say."""

import importlib.util

import pytest


@pytest.mark.parametrize("schedule, has_hops", [("ring", True), ("direct", False),
                                                ("hierarchical", False)])
def test_a_picture_speaks_of_hops_only_where_it_draws_them(schedule, has_hops, root,
                                                           build_directory, tmp_path):
    place = importlib.util.spec_from_file_location("draw", root / "tools/draw_schedules.py")
    draw = importlib.util.module_from_spec(place)
    place.loader.exec_module(draw)
    ranks, chunks, caption = draw.PICTURES[schedule]
    rows = draw.read_timeline(build_directory / "tools/gqsgd-plan", schedule, ranks, chunks)
    draw.draw(schedule, ranks, caption, rows, tmp_path / "picture.svg")
    for picture in (tmp_path / "picture.svg", root / f"docs/pictures/{schedule}.svg"):
        text = picture.read_text()  # text is outlines, its words comments
        assert ("the number in a reduction is its hop" in text) is has_hops, picture
