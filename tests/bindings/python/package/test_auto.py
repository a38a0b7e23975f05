"""schedule="auto" with constants: the cheapest choice, the same in ranks and in a simulation."""

import gqsgd
import numpy as np
import pytest

RANKS = 4
COMPRESSED = ("ring", "tree", "butterfly", "direct")


def inputs_of(count, dtype=np.float32):
    generator = np.random.default_rng(count)
    return [generator.standard_normal(count).astype(dtype) for _ in range(RANKS)]


def reduced(inputs, q, **options):
    """What every rank gets with schedule="auto"; the same bits on all."""
    results = gqsgd.run_local(
        RANKS, lambda comm: comm.allreduce(inputs[comm.rank], q, step=3), **options
    )
    for result in results[1:]:
        np.testing.assert_array_equal(result, results[0])
    return results[0]


def choices(inputs, q, schedules=COMPRESSED):
    """The result of each schedule by name."""
    return {s: gqsgd.simulate(inputs, q, schedule=s, step=3) for s in schedules}


def is_one_of(result, candidates):
    return any(np.array_equal(result, candidate) for candidate in candidates.values())


@pytest.mark.parametrize("count", [1, 100, 5000, 300_000])
@pytest.mark.parametrize("uncompressed", ["auto", "never"])
def test_an_allreduce_and_a_simulation_choose_alike(count, uncompressed):
    q = gqsgd.Quantizer("paper-ge8", seed=9)
    inputs = inputs_of(count)
    options = {"costs": "builtin", "uncompressed": uncompressed}
    result = reduced(inputs, q, **options)
    np.testing.assert_array_equal(result, gqsgd.simulate(inputs, q, step=3, **options))


def test_short_calls_are_those_of_none_and_long_ones_are_not():
    q, none = gqsgd.Quantizer("paper-ge8"), gqsgd.Quantizer("none")
    short, long = inputs_of(50), inputs_of(300_000)
    assert is_one_of(reduced(short, q, costs="builtin"), choices(short, none))
    assert is_one_of(reduced(long, q, costs="builtin"), choices(long, q))
    forbidden = reduced(short, q, costs="builtin", uncompressed="never")
    assert is_one_of(forbidden, choices(short, q))
    assert not is_one_of(forbidden, choices(short, none))


def test_narrow_outputs_of_short_calls_are_rounded_as_by_none():
    inputs = inputs_of(50, np.float16)
    for rounding in ("independent", "nearest"):
        q = gqsgd.Quantizer("paper-ge8", rounding=rounding, seed=4)
        none = gqsgd.Quantizer("none", rounding=rounding, seed=4)
        assert is_one_of(reduced(inputs, q, costs="builtin"), choices(inputs, none))


def test_without_constants_auto_is_direct():
    q = gqsgd.Quantizer("paper-ge8")
    for count in (1, 50, 5000):
        inputs = inputs_of(count)
        np.testing.assert_array_equal(
            reduced(inputs, q), gqsgd.simulate(inputs, q, schedule="direct", step=3)
        )


def test_constants_of_a_file_decide(tmp_path):
    """Links that cost nothing never pay for codes; links that cost everything always do."""
    q, none = gqsgd.Quantizer("paper-ge8"), gqsgd.Quantizer("none")
    inputs = inputs_of(20_000)
    costs = tmp_path / "costs"
    costs.write_text("byte_ns = 0\n")
    assert is_one_of(reduced(inputs, q, costs=costs), choices(inputs, none))
    costs.write_text("byte_ns = 1000\n")
    assert is_one_of(reduced(inputs, q, costs=costs), choices(inputs, q))


def test_the_environment_names_the_file(tmp_path, monkeypatch):
    q, none = gqsgd.Quantizer("paper-ge8"), gqsgd.Quantizer("none")
    inputs = inputs_of(20_000)
    costs = tmp_path / "costs"
    costs.write_text("byte_ns = 0\n")
    monkeypatch.setenv("GQSGD_COSTS", str(costs))
    result = reduced(inputs, q)
    assert is_one_of(result, choices(inputs, none))
    np.testing.assert_array_equal(result, gqsgd.simulate(inputs, q, step=3))


def test_values_that_are_not_finite_are_still_reported():
    q = gqsgd.Quantizer("paper-ge8", nonfinite="error")
    inputs = inputs_of(50)
    inputs[2][7] = np.nan
    with pytest.raises(gqsgd.Nonfinite, match="rank 2 has 1 values"):
        reduced(inputs, q, costs="builtin")


def test_reserved_calls_need_no_more_memory():
    q = gqsgd.Quantizer("blocks-8")

    def workspace(comm):
        comm.reserve(q, 50)
        before = comm.stats()["workspace_bytes"]
        comm.allreduce(np.ones(50, np.float32), q)
        return before, comm.stats()["workspace_bytes"]

    for before, after in gqsgd.run_local(RANKS, workspace, costs="builtin"):
        assert before == after
