"""tools/adaptive_study/limits.py: formulas where the answer is known; no code is below them."""

import numpy as np
import pytest


@pytest.fixture(autouse=True)
def paths(root, monkeypatch):
    for folder in ("tools", "reference", "bindings/python"):
        monkeypatch.syspath_prepend(str(root / folder))


def data_of(values, tensor_counts=None):
    from adaptive_study.data import in_tensors

    return in_tensors("made up", values.astype(np.float32), tensor_counts or [values.shape[1]])


def test_equal_gaussian_values_have_the_variance_over_4_to_the_bits():
    from adaptive_study.limits import filled

    for bits in (0.0, 0.5, 1.0, 4.0, 9.25):
        found = filled(np.full(10, 3.0), np.full(10, 128), bits * 1280)
        assert found == pytest.approx(1280 * 3 * 4**-bits, rel=1e-9)
        if bits:
            found = filled(np.full(10, 3.0), np.full(10, 128), bits * 1280, unbiased=True)
            assert found == pytest.approx(1280 * 3 / (4**bits - 1), rel=1e-9)


def test_water_is_filled_by_level():
    from adaptive_study.limits import filled

    # One bit apart, so that 2 bits on average are 2.5 and 1.5; none for what is below the level.
    assert filled(np.array([4.0, 1.0]), np.array([7, 7]), 28) == pytest.approx(14 * 2.0**-3)
    assert filled(np.array([4.0, 0.01, 0]), np.array([7, 7, 9]), 14) == pytest.approx(7 * 0.26)


@pytest.mark.parametrize("rank_count", [3, 4, 8, 16])
@pytest.mark.parametrize("bits", [6.0, 8.375, 12.0])
@pytest.mark.parametrize("shape", [1.0, 0.5])
def test_the_least_error_of_equal_values_is_the_best_division_between_hops(rank_count, bits, shape):
    from adaptive_study.limits import least_error

    others, s = rank_count - 2, 2.0 / rank_count**2
    up = np.linspace(0.5, bits - 0.5, 20001)
    epsilon = shape * 4.0**-up
    # From the estimate of the others' sum W by U: linear, with E[W V] = E[V V].
    w, v = others * s, others * s * (1 - epsilon)
    left = w - v**2 / (s + v)
    # shape s is the owner's own entropy power; exp(2 I(W; U)) is at least shape w / left.
    power = shape * s * shape * w / left
    direct = np.min(w * epsilon + power * 4.0**-(bits - up))
    found = least_error(np.full(5, 2.0), np.full(5, 128), rank_count, bits * 640,
                        np.full(5, shape)) / 640
    assert found == pytest.approx(direct, rel=2e-3)
    assert found < 2 * 2 * 2.0**-bits / rank_count  # two hops of independent codebooks


def test_the_second_hop_is_that_of_a_gaussian_sum_when_the_first_is_fine():
    from adaptive_study.limits import second_hop_power

    for others in (1, 2, 14):
        epsilon = np.array([0, 0.01, 0.3, 1])
        bound = second_hop_power(epsilon, others)
        reached = 1 + others * (1 - epsilon)  # by Gaussian codebooks
        assert np.all(bound <= reached)
        assert bound[[0, 3]] == pytest.approx(reached[[0, 3]])
        assert bound[1] > 0.85 * reached[1]


def test_entropy_powers_of_known_densities():
    from adaptive_study.limits import entropy_power

    random, count = np.random.default_rng(0), 400_000
    assert entropy_power(random.standard_normal(count)) == pytest.approx(1, rel=0.01)
    uniform = random.uniform(-3**0.5, 3**0.5, count)
    assert entropy_power(uniform) == pytest.approx(12 / (2 * np.pi * np.e), rel=0.01)
    laplace = random.laplace(scale=0.5**0.5, size=count)
    assert entropy_power(laplace) == pytest.approx(np.e / np.pi, rel=0.01)
    assert entropy_power(random.standard_normal(300)) < 1  # a small sample errs to the safe side


@pytest.mark.parametrize("kind", ["standard_normal", "standard_exponential", "laplace"])
@pytest.mark.parametrize("rank_count", [4, 16])
def test_no_scheme_is_below_the_limit_and_ideal_codes_are_above_it(kind, rank_count):
    from adaptive_study.codecs import Adaptive, draws_of
    from adaptive_study.limit_table import limits_of
    from adaptive_study.entropy_coded import EntropyCoded
    from adaptive_study.losses import SubtractiveBothWays
    from adaptive_study.measure import errors_of
    from adaptive_study.rule import Rule

    random = np.random.default_rng(1)
    scales = np.repeat(np.exp(random.standard_normal(128)), 128)
    noise = getattr(random, kind)(size=(rank_count, len(scales)))
    whole = data_of((noise + 0.3 * random.standard_normal(len(scales))) * scales, [8192, 8192])
    for scheme in (Adaptive(4), Adaptive(5, rule=Rule(1.0), rotate=128, subtractive=True),
                   SubtractiveBothWays(4), EntropyCoded(8.0), EntropyCoded(5.0, own_exact=True)):
        errors = errors_of(scheme.run(whole, draws_of(whole, 0)), whole)
        limits = limits_of(whole, rank_count, errors.bits)
        assert limits["any"] < limits["gauss"] < limits["ideal"]
        assert errors.square > limits["any"]
        if kind == "standard_normal":
            assert errors.square > limits["gauss"]
            assert limits["any"] > 0.75 * limits["gauss"]
        if kind == "laplace":
            assert limits["any"] < 0.9 * limits["gauss"]


def test_single_values_at_their_entropy_lose_a_quarter_of_a_bit():
    """1.53 dB, 2 pi e / 12: what uniform levels lose to long codebooks at high rates."""
    from adaptive_study.codecs import draws_of
    from adaptive_study.limits import ideal_error, parts_of
    from adaptive_study.entropy_coded import EntropyCoded
    from adaptive_study.measure import errors_of

    data = data_of(np.random.default_rng(2).standard_normal((4, 32768)))
    found = errors_of(EntropyCoded(9.0, own_exact=True).run(data, draws_of(data, 0)), data).square
    ideal = ideal_error(parts_of(data, 4), 4, 9.0 * 32768, unbiased=True) / np.sum(data.exact**2)
    assert found / ideal == pytest.approx(2 * np.pi * np.e / 12, rel=0.03)


def test_zeros_and_scales_of_ranks_are_free():
    """Where a rank is 0 the value is left out; ranks of unequal scale have a smaller shape."""
    from adaptive_study.limits import parts_of

    random = np.random.default_rng(3)
    values = random.standard_normal((8, 4096))
    values[2, :128] = 0
    values[3, 128:192] = 0
    parts = parts_of(data_of(values), 8)
    assert parts.dense_counts[0] == 0 and parts.dense_counts[1] == 64 and parts.shape[0] == 0
    assert np.all(parts.dense_counts[2:] == 128)
    values[::2] *= 10
    unequal = parts_of(data_of(values), 8)
    # Geometric over arithmetic mean of the variances 1 and 100.
    assert unequal.shape[2:].mean() / parts.shape[2:].mean() == pytest.approx(0.2, rel=0.15)


def test_the_table_says_what_no_code_reaches():
    from adaptive_study.limit_table import asked, beyond, reach, target_table
    from adaptive_study.measure import Errors
    from adaptive_study.targets import Target

    def errors(square):
        return Errors(square, 0, 0, 0, 0, 4.0, 4.0)

    target = Target("a half of b", "a", ("b",), 0.5)
    table = {("lm 10%", 4): {"a": errors(9), "b": errors(4)},
             ("lm 10%", 8): {"a": errors(8), "b": errors(4)}}
    limits = {("lm 10%", 4, "a"): {"any": 1.0, "ideal": 2.1, "entropy": 3.0},
              ("lm 10%", 8, "a"): {"any": 2.1, "ideal": 2.5, "entropy": 3.0}}
    assert beyond(target, table, limits) == (1, 2, 2, 2)
    cell = reach(target, table, limits)["lm", "10%"]
    assert cell["ours"] == pytest.approx(4 / 9) and cell["any"] == pytest.approx(4 / 2.1)
    # Every target is in the table, and bold where the limit is above what was asked.
    full = {(f"{network} {share}", 4): {name: errors(4) for one in asked()
                                        for name in (one.ours, *one.others)}
            for network in ("lm", "gpt", "cnn") for share in ("10%", "50%", "100%")}
    known = {(*place, one.ours): {"any": 1.0, "ideal": 1.0, "entropy": 2.0}
             for place in full for one in asked()}
    lines = target_table(full, known).splitlines()
    assert len(lines) == 2 + 3 * len(asked())
    below_5 = next(line for line in lines if "at least 5x below" in line)
    below_2 = next(line for line in lines if "at least 2x below" in line)
    assert "**1 / 2 / 4 / 4**" in below_5 and "9, 9, 9 of 9" in below_5
    assert "**" not in below_2 and "0, 0, 0 of 9" in below_2
