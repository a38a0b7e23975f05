"""tools/error_table: its bytes, its peers and its decisions are right, and a run repeats itself."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

TIMEOUT_S = 100


@pytest.fixture(autouse=True)
def paths(root, monkeypatch):
    for folder in ("tools", "reference", "bindings/python"):
        monkeypatch.syspath_prepend(str(root / folder))


@pytest.fixture
def error_table(root, library, tmp_path):
    """error_table(folder, option...) -> the finished run; its files are in tmp_path / folder."""
    def run(folder, *options):
        return subprocess.run(
            [sys.executable, root / "tools/error_table", "--out", tmp_path / folder, *options],
            capture_output=True, text=True, timeout=TIMEOUT_S,
            env={**os.environ, "GQSGD_LIBRARY": str(library)})

    return run


SMALL = ["--seeds", "2", "--ranks", "4", "8", "--values", "2048", "--data", "gauss", "one-hot"]


def test_a_run_measures_everything_and_repeats_itself(error_table, tmp_path):
    first = error_table("first", *SMALL)
    assert first.returncode == 0, first.stderr
    second = error_table("second", *SMALL, "--jobs", "2")
    assert second.returncode == 0, second.stderr
    for name in ("errors.md", "errors.json", "error_per_byte.svg", "error_by_ranks.svg"):
        assert (tmp_path / "first" / name).read_bytes() == (tmp_path / "second" / name).read_bytes()

    third = error_table("third", "--saved", tmp_path / "first/errors.json")
    assert third.stdout == first.stdout

    from error_lib.peers import PEERS
    from error_lib.schemes import SCHEMES
    found = json.loads((tmp_path / "first/errors.json").read_text())
    assert len(found["rows"]) == 2 * 2 * (len(SCHEMES) + len(PEERS))
    for row in found["rows"]:
        assert (row["refusal"] is None) == (len(row["errors"]) == 2), row
        assert all(row["same_bits"]), row
    compared = [row for row in found["rows"] if row["same_bits"]]
    assert {"none direct", "paper-gl8 ring"} <= {row["scheme"] for row in compared}


def test_tables_need_no_matplotlib(error_table, tmp_path, monkeypatch):
    """Which is hidden here by a module that fails as an absent one does."""
    absent = "raise ModuleNotFoundError(\"No module named 'matplotlib'\", name='matplotlib')\n"
    (tmp_path / "hiding").mkdir()
    (tmp_path / "hiding/matplotlib.py").write_text(absent)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "hiding"))
    options = ["--seeds", "1", "--ranks", "4", "--values", "2048", "--data", "gauss"]
    result = error_table("tables", *options)
    assert result.returncode == 0, result.stderr
    assert "no pictures are drawn: they need matplotlib" in result.stderr
    assert (tmp_path / "tables/errors.md").read_text() == result.stdout.removesuffix("\n")
    assert not list((tmp_path / "tables").glob("*.svg"))
    pictures = error_table("pictures", "--pictures")
    assert pictures.returncode == 1 and "Traceback" not in pictures.stderr


@pytest.mark.parametrize("tool", ["draw_costs.py", "draw_schedules.py"])
def test_tools_that_only_draw_say_so_without_matplotlib(root, tmp_path, tool):
    (tmp_path / "matplotlib.py").write_text("raise ModuleNotFoundError\n")
    result = subprocess.run([sys.executable, root / "tools" / tool], capture_output=True, text=True,
                            timeout=TIMEOUT_S, env={**os.environ, "PYTHONPATH": str(tmp_path)})
    assert result.returncode == 1 and "they need matplotlib; hint:" in result.stderr


def test_unknown_data_is_an_error_that_names_what_there_is(error_table):
    result = error_table("none", "--data", "no-such-data")
    assert result.returncode == 1
    assert "no-such-data" in result.stderr and "gauss" in result.stderr


def test_presets_are_the_librarys_own(library):
    import gqsgd
    from error_lib.schemes import PRESETS

    for name, text in PRESETS.items():
        assert gqsgd.Quantizer(name).spec == gqsgd.Quantizer(text).spec


@pytest.mark.parametrize("rank_count", [4, 5])
@pytest.mark.parametrize("value_count", [65536, 20000])
def test_bytes_are_what_ranks_send(library, rank_count, value_count):
    import gqsgd
    from error_lib.schemes import SCHEMES

    x = np.ones(value_count, np.float32)
    for scheme in SCHEMES:
        quantizer = gqsgd.Quantizer(scheme.spec)

        def sent(comm, quantizer=quantizer, schedule=scheme.schedule):
            comm.allreduce(x, quantizer, schedule=schedule)
            return comm.stats()["payload_bytes_sent"]

        total = sum(gqsgd.run_local(rank_count, sent))
        expected = scheme.bytes_per_value(rank_count, value_count) * rank_count * value_count
        # Shares of the last shard and tails of words are not in the formula.
        assert total == pytest.approx(expected, rel=0.02), scheme.name


def test_peers_that_are_called_unbiased_are_and_the_others_are_not():
    from error_lib.peers import PEERS

    draw_count = 400
    inputs = np.random.default_rng(5).standard_normal((3, 256), np.float32)
    exact = inputs.mean(axis=0, dtype=np.float64)
    for number, peer in enumerate(PEERS):
        random = np.random.default_rng(number)
        draws = np.stack([peer.run(inputs, random) for _ in range(draw_count)]).astype(np.float64)
        error = draws.mean(axis=0) - exact
        spread = draws.std(axis=0)
        # float32 sums are exact to some 2^-22; six standard deviations for each of 256 values.
        limit = 6 * spread / np.sqrt(draw_count) + 1e-6
        assert np.all(np.abs(error) <= limit) == peer.unbiased, peer.name


def test_peers_keep_zeros_and_values_they_can_represent():
    from error_lib.peers import extreme_at_minus_8, local_scale, power_of_two

    random = np.random.default_rng(0)
    zeros = np.zeros(40, np.float32)
    steps = np.array([7, -7, 3, 0, 1] * 8, np.float32)
    for rounding in ("nearest", "random"):
        code = local_scale(4, 32, rounding)
        assert np.array_equal(code(zeros, random), zeros)
        assert np.array_equal(code(steps, random), steps)
    eighths = np.array([-8, 7, 3, 0, 1] * 8, np.float32)
    assert np.array_equal(extreme_at_minus_8(eighths, random), eighths)
    powers = np.array([0, 1, -2, 0.25, -2.0**-20], np.float32)
    assert np.array_equal(power_of_two(powers, random), powers)


def a_table(ours, peer_error):
    """One cell of everything; the preset and all peers have the given errors."""
    from error_lib.measure import Cell
    from error_lib.peers import PEERS
    from error_lib.schemes import SCHEMES

    cells = {scheme.name: Cell([ours], bytes_per_value=scheme.bytes_per_value(16, 65536))
             for scheme in SCHEMES}
    cells |= {peer.name: Cell([peer_error], bytes_per_value=peer.bytes_per_value(16, 65536))
              for peer in PEERS}
    return {("gauss", 16): cells, ("heavy", 64): cells, ("digits step 60", 16): cells,
            ("lm step 10%", 16): cells}


def test_claims_pass_and_fail_by_their_factors():
    from error_lib.claims import verdict_lines

    def words(ours, peer_error):
        return [line.split()[0] for line in verdict_lines(a_table(ours, peer_error))
                if not line.startswith(" ")]

    # The last six of adaptive widths, and six of Rice codes, are of recorded gradients and of two
    # presets, which have one error here.
    assert words(1e-4, 1e-3) == ["PASS"] * 10 + (["PASS"] * 2 + ["FAIL"] + ["PASS"] * 3) * 2
    assert words(1e-4, 1.5e-4) == (["PASS", "PASS", "PASS", "FAIL", "PASS", "PASS", "FAIL"]
                                   + ["PASS"] * 3 + (["FAIL"] * 3 + ["PASS"] * 3) * 2)
    assert words(1e-3, 1e-4) == ["FAIL"] * 10 + (["FAIL"] * 4 + ["PASS"] * 2) * 2


def test_claims_look_at_peers_that_send_no_more_bytes():
    from error_lib.claims import CLAIMS, check

    table = a_table(1e-4, 1e-3)
    for cells in table.values():
        cells["int8 two-shot, scale per 32, random"].errors = [1e-9]  # 2.13 against 2.05 bytes
    unbiased = next(claim for claim in CLAIMS if claim.among == "unbiased")
    assert all(one.holds for one in check(unbiased, table))


def test_claims_about_one_peer_have_its_bytes_in_a_given_share():
    from dataclasses import replace

    from error_lib.claims import CLAIMS, check

    claim = next(claim for claim in CLAIMS if claim.among == "DynamiQ-like 5 bits")
    table = a_table(1e-4, 1e-3)
    assert [(one.data, one.holds) for one in check(claim, table)] == [("lm step 10%", True)]
    assert "104% of its bytes" in claim.text
    (one,) = check(replace(claim, bytes_share=1), table)  # adaptive-5 has norms and scales on top
    assert one.peer is None


def test_recorded_gradients_are_the_data_of_a_run(error_table, tmp_path):
    from adaptive_study.record import RANK_COUNT

    values = np.random.default_rng(3).standard_normal((RANK_COUNT, 3 * 1024), np.float32)
    description = {"lm": {"tensors": [["a", 2048], ["b", 1024]]}}
    np.savez(tmp_path / "few.npz", **{"lm 10%": (values.view(np.uint32) >> 16).astype(np.uint16)},
             description=np.array(json.dumps(description)), digest=np.array("abc"))
    result = error_table("recorded", "--recorded", tmp_path / "few.npz", "--ranks", "4", "16", "64",
                         "--seeds", "1")
    assert result.returncode == 0, result.stderr
    assert "content abc" in result.stderr and "### Gradients of lm" in result.stdout
    rows = json.loads((tmp_path / "recorded/errors.json").read_text())["rows"]
    assert {(row["data"], row["ranks"]) for row in rows} == {("lm step 10%", 4),
                                                             ("lm step 10%", 16)}


def test_other_bits_than_the_references_and_broken_bounds_are_failures():
    from error_lib.report import disagreements

    table = a_table(1e-4, 1e-3)
    assert disagreements(table) == []
    cell = table["gauss", 16]["rotated-8 direct"]
    cell.same_bits, cell.reference_errors, cell.bound_shares = [False], [1.1e-4], [1.2] * 9
    assert len(disagreements(table)) == 2
    cell.bound_shares = [0.1, 0.1, 3.5]  # one seed far off is no proof
    assert len(disagreements(table)) == 1


@pytest.fixture
def page(root):
    return (root / "docs/results/errors.md").read_text()


def test_the_numbers_of_the_pictures_are_those_of_the_page(page):
    from error_lib.report import section, sections
    from error_lib.saved import table_of_page

    table = table_of_page(page)
    parts = sections(list(dict.fromkeys(name for name, _ in table)))
    assert len(parts) == 8
    for title, data in parts.items():
        assert section(table, title, data) in page, title


def test_pictures_show_few_panels_and_name_what_they_draw(page, tmp_path):
    from error_lib import picture
    from error_lib.saved import table_of_page

    table = table_of_page(page)
    assert list(picture.panels_of(table)) == list(picture.PANELS)
    assert len(picture.PANELS) <= 4 and len(picture._ROWS) <= 12 and len(picture._CURVES) <= 8
    picture.draw_all(table, 16, tmp_path, suffixes=("svg",))
    per_byte = (tmp_path / "error_per_byte.svg").read_text()  # text is outlines, its words comments
    for name, (label, _) in picture._ROWS.items():
        assert f"<!-- {label}   {table['gauss', 16][name].bytes_per_value:.2f} -->" in per_byte
    by_ranks = (tmp_path / "error_by_ranks.svg").read_text()
    for name in picture._CURVES:
        assert by_ranks.count(f"<!-- {picture._ROWS[name][0]} -->") == len(picture.PANELS), name


def test_labels_of_curves_that_end_together_stand_apart():
    from error_lib.picture import _spread

    heights = _spread([(1e-4, "a"), (1.1e-4, "b"), (1e-4, "c"), (1.0, "d")])
    assert min(high / low for low, high in zip(heights, heights[1:])) > 1.7
    assert heights[-1] == pytest.approx(1.0)
