"""tools/adaptive_study: its rule spends the budget and no more, its codes are unbiased."""

import itertools

import numpy as np
import pytest


@pytest.fixture(autouse=True)
def paths(root, monkeypatch):
    for folder in ("tools", "reference", "bindings/python"):
        monkeypatch.syspath_prepend(str(root / folder))


def rules():
    from adaptive_study.rule import Rule

    return [Rule(exponent, tuple(range(least, 9)))
            for exponent in (0.0, 0.25, 0.5, 1.0) for least in (2, 3)] + [Rule(one_step=True)]


def random_codes(random, count):
    """Norms over many octaves, with zeros, poisoned blocks and many equal ones."""
    codes = random.integers(1, 0x7F81, size=count) if random.random() < 0.3 else (
        random.normal(15000, 600, size=count).astype(np.int64))
    if random.random() < 0.5:
        codes -= codes % random.choice([2, 64, 1024])
    codes = np.clip(codes, 1, 0x7F80)
    codes[random.random(count) < 0.1] = 0
    codes[random.random(count) < 0.05] = 0x7FFF
    return codes


def test_the_budget_is_spent_exactly_unless_all_have_the_largest_width():
    from adaptive_study.rule import allocate

    random = np.random.default_rng(0)
    for rule, trial in itertools.product(rules(), range(40)):
        codes = random_codes(random, int(random.integers(1, 300)))
        live = (codes > 0) & (codes < 0x7FFF)
        budget = int(random.uniform(rule.widths[0], 9) * len(codes))
        widths = allocate(codes, budget, rule)
        assert np.all((widths == 0) == ~live), (rule, trial)
        assert set(widths[live]) <= set(rule.widths)
        assert widths.sum() == min(budget, 8 * live.sum()), (rule, trial)


def test_coarse_widths_stay_inside_the_budget():
    from adaptive_study.rule import Rule, allocate

    random = np.random.default_rng(1)
    for widths in ((2, 4, 8), (4, 8), (2, 4, 6, 8)):
        for _ in range(40):
            codes = random_codes(random, int(random.integers(1, 300)))
            budget = int(random.uniform(widths[0], 9) * len(codes))
            found = allocate(codes, budget, Rule(widths=widths))
            assert found.sum() <= budget
            assert set(found) <= {0, *widths}


def test_a_larger_norm_never_gets_fewer_bits_and_ties_go_by_number():
    from adaptive_study.rule import allocate

    random = np.random.default_rng(2)
    for rule, _ in itertools.product(rules(), range(40)):
        codes = random_codes(random, 200)
        widths = allocate(codes, int(random.uniform(rule.widths[0], 8) * 200), rule)
        live = np.flatnonzero(widths)
        order = live[np.lexsort((-live, codes[live]))]  # of equal codes the first block last
        assert np.all(np.diff(widths[order]) >= 0), rule


def test_too_small_a_budget_is_an_error_that_names_both_numbers():
    from adaptive_study.rule import Rule, allocate

    with pytest.raises(ValueError, match="3 blocks of 2 bits exceed the budget of 5"):
        allocate([1, 2, 3], 5, Rule())


def test_no_other_widths_of_the_same_bits_have_a_smaller_error():
    """Exponent 1 against all choices of widths 2..4 for four blocks; norms are powers of two,
    where 128 log2 has no error."""
    from adaptive_study.rule import Rule, allocate, norms_of, top_of

    rule, random = Rule(1.0, (2, 3, 4)), np.random.default_rng(3)
    for budget in range(8, 17):
        codes = 128 * random.integers(120, 126, size=4)
        energy = norms_of(codes).astype(np.float64)**2

        def error(widths, energy=energy):
            return sum(e / top_of(w)**2 for e, w in zip(energy, widths))

        best = min(error(widths) for widths in itertools.product((2, 3, 4), repeat=4)
                   if sum(widths) <= budget)
        assert error(allocate(codes, budget, rule)) <= best * (1 + 1e-12)


@pytest.mark.parametrize("width", [2, 3, 4, 8])
def test_codes_up_and_down_are_unbiased_over_all_thresholds(width):
    from adaptive_study.codecs import add, encode

    grid = 64
    u = ((np.arange(grid) + 0.5) / grid).astype(np.float32)
    values = np.array([0, 1, -1, 5, -40, 63, 64, -64], np.float32) / 64
    top = 2**(width - 1) - 1
    # (values * top) lies on the grid, so that the thresholds are all that matter.
    rows = np.broadcast_to(values, (1, grid, len(values)))
    draws = np.broadcast_to(u[:, None], (1, grid, len(values)))
    sums, unit = add(rows, np.ones(grid), np.full(grid, width), draws)
    assert np.abs(sums).max() <= top
    np.testing.assert_allclose((sums * unit[:, None]).mean(axis=0), values, atol=1e-7)
    means = np.broadcast_to(values.astype(np.float64), (grid, len(values)))
    decoded = encode(means, np.ones(grid), np.full(grid, width), u[:, None])
    np.testing.assert_allclose(decoded.mean(axis=0), values, atol=1e-7)
    assert np.all(decoded[:, 0] == 0)
    biased = encode(means, np.ones(grid), np.full(grid, width), np.full((grid, 1), 0.5))
    assert np.abs(biased.mean(axis=0) - values).max() > 1e-3 or width == 8


def test_strata_leave_every_rank_uniform():
    from adaptive_study.codecs import draws_of
    from adaptive_study.data import in_tensors

    data = in_tensors("zeros", np.zeros((4, 40_000), np.float32), [40_000])
    draws = draws_of(data, 0)
    assert draws.up.min() >= 0 and draws.up.max() < 1
    # Every value has one threshold in each quarter, and each rank's mean is 1/2 to 5 deviations.
    assert np.all(np.sort((draws.up * 4).astype(int), axis=0) == np.arange(4)[:, None])
    assert np.abs(draws.up.mean(axis=1) - 0.5).max() < 5 * (1 / 12 / 40_000)**0.5


@pytest.mark.parametrize("down", ["same", "peaks"])
def test_an_allreduce_keeps_zeros_and_has_no_bias(down):
    from adaptive_study.codecs import Adaptive, draws_of
    from adaptive_study.data import in_tensors

    random = np.random.default_rng(4)
    x = (random.standard_normal((4, 1024)) * np.repeat(2.0**np.arange(8), 128)).astype(np.float32)
    x[:, 256:384] = 0
    x[:, ::5] = 0
    data = in_tensors("made up", x, [1000, 24])
    scheme, call_count = Adaptive(4, down=down), 400
    total, squares = np.zeros(data.inputs.shape[1]), np.zeros(data.inputs.shape[1])
    for seed in range(call_count):
        mean = scheme.run(data, draws_of(data, seed)).mean
        assert np.all(mean[data.exact == 0] == 0)
        total += mean - data.exact
        squares += (mean - data.exact)**2
    moved = squares > 0
    deviations = total[moved] / np.sqrt(squares[moved])  # standard normal if there is no bias
    assert abs(np.mean(deviations**2) - 1) < 0.3
    assert abs(np.mean(deviations)) < 0.2


def test_fixed_widths_have_the_errors_of_the_library(library):
    from adaptive_study.codecs import Adaptive, draws_of
    from adaptive_study.data import made_up
    from adaptive_study.measure import errors_of
    from adaptive_study.rivals import Preset

    data = made_up("gauss", 4, 32768, 0)
    draws = draws_of(data, 0)
    for mean, spec in ((4, "blocks-8,bits=4"), (8, "blocks-8")):
        ours = errors_of(Adaptive(mean, scope="none").run(data, draws), data)
        theirs = errors_of(Preset(spec).run(data, draws), data)
        assert ours.bits == theirs.bits
        assert abs(ours.square / theirs.square - 1) < 0.04


def test_rotations_are_undone():
    from adaptive_study.rotation import Rotation

    values = np.random.default_rng(5).standard_normal((2, 2944)).astype(np.float32)
    rotation = Rotation((0, 2048, 2944), 1024, 0)
    rotated = rotation.forth(values)
    assert np.abs(rotated - values).max() > 0.5
    np.testing.assert_allclose(rotation.back(rotated), values, atol=1e-5)


def test_a_record_samples_long_tensors_in_runs_and_short_ones_whole():
    from adaptive_study.record import RUN, sampled_places

    counts = [400_000, 3000, 100, *[50] * 20]
    places = sampled_places(counts)
    assert len(places[0]) % RUN == 0
    runs = places[0].reshape(-1, RUN)
    assert np.all(np.diff(runs, axis=1) == 1) and np.all(runs[:, 0] % RUN == 0)
    assert len(np.unique(places[0])) == len(places[0]) and places[0].max() < 400_000
    assert len(places[1]) == RUN
    short = [len(kept) for number, kept in places.items() if number >= 2]
    assert 1 <= len(short) <= 6 and set(short) <= {50, 100}
    whole = sampled_places([5000, 7])
    assert [len(whole[0]), len(whole[1])] == [5000, 7]


def test_targets_say_pass_and_fail():
    from adaptive_study.measure import Errors
    from adaptive_study.targets import Target, lines

    def errors(square, bits=4.0):
        return Errors(square, 0, 0, 0, 0, bits, bits)

    target = Target("a half of b", "a", ("b",), 0.5)
    place = ("lm 10%", 4)
    assert lines({place: {"a": errors(1), "b": errors(2)}}, [target])[0].startswith("PASS")
    assert lines({place: {"a": errors(1.1), "b": errors(2)}}, [target])[0].startswith("FAIL")
    assert lines({place: {"a": errors(1, 5), "b": errors(2)}}, [target])[0].startswith("FAIL")
    assert lines({("lm 1%", 4): {"a": errors(9), "b": errors(2)}}, [target])[0].startswith("NOT")


def test_trainings_are_compared_with_float32_of_the_same_seed():
    from adaptive_study.trainings import CONTENDERS, RATES, cell, differences, runs_of, table

    keys = list(runs_of(2))
    assert len(keys) == len(set(keys)) == 2 * len(CONTENDERS) * len(RATES)
    results = {"lm/SGD/float32/0": 2.0, "lm/SGD/float32/1": 3.0, "lm/SGD/adaptive-4/0": 2.25,
               "lm/SGD/adaptive-4/1": 3.75, "lm/SGD/adaptive-4/2": 9.0}
    found = differences(results, "lm", "SGD", "adaptive-4")
    assert found == [0.25, 0.75]  # seed 2 has no float32
    assert cell(found) == "+0.5000 +- 0.2500 (2)"
    assert cell([0.5]) == "-"
    assert "inf" in cell([0.5, float("inf")])
    text = table(results)
    assert "| `adaptive-4` | +0.5000 +- 0.2500 (2) | - |" in text
    assert "| float32: loss, spread of seeds | 2.5000 +- 0.7071 | - |" in text
