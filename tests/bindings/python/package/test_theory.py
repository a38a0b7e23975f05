"""The bounds against their closed forms and against errors that were measured."""

import math

import gqsgd
import numpy as np
import pytest


def test_linear_bound_is_the_papers_theorem():
    # Exact sums round nothing on the way; two ranks share 127 steps, and d is large enough for
    # sqrt(d/n)/s to be less than d/(4 s^2).
    q = gqsgd.Quantizer("paper-gl8")
    assert gqsgd.variance_bound(q, 2, 10**8, "ring") == pytest.approx(math.sqrt(10**8 / 2) / 63)


def test_exponential_bound_grows_by_nine_eighths_per_reduction():
    q = gqsgd.Quantizer("paper-ge8")
    assert gqsgd.depth_factor(q, 9, "tree") == pytest.approx(1.125**4)
    assert gqsgd.depth_factor(q, 9, "direct") == pytest.approx(1.125)
    assert gqsgd.depth_factor(q, 9, "sparse") == 1
    assert gqsgd.depth_factor(gqsgd.Quantizer("paper-gl8"), 9, "tree") == 1
    # Levels reach down to 2^-122 of the norm, so that what is left is 1/(8n) and the roundings.
    theta = gqsgd.variance_bound(q, 9, 1000, "tree")
    assert 1 + theta == pytest.approx(1.125**4 * (1 + 1 / 72))


def test_sparsity_bound_has_the_factor_before_the_root():
    q = gqsgd.Quantizer(levels="linear", bits=4, norm=("2", "2"))
    assert gqsgd.sparsity_bound(q, 4, 10**6, "direct") == pytest.approx(49 + 7 * 2000)


@pytest.mark.parametrize("preset", ["paper-gl8", "paper-ge8", "paper-gl4", "paper-ge4"])
@pytest.mark.parametrize("schedule", ["ring", "tree", "butterfly", "direct"])
def test_measured_error_stays_below_the_bound(preset, schedule):
    n, d = 5, 2000
    q = gqsgd.Quantizer(preset, seed=3)
    x = list(np.random.default_rng(1).standard_normal((n, d)).astype(np.float32))
    mean = np.mean(np.asarray(x, np.float64), axis=0)
    errors = [
        np.sum((gqsgd.simulate(x, q, schedule=schedule, step=step) - mean) ** 2)
        for step in range(20)
    ]
    squares = sum(np.sum(v.astype(float) ** 2) for v in x)
    bound = gqsgd.variance_bound(q, n, d, schedule) / n * squares
    assert math.isfinite(bound)
    assert 0 < np.mean(errors) <= bound


@pytest.mark.parametrize(
    "preset", ["blocks-8", "rotated-8", "rotated-4-8", "rotated-4", "relative-8", "bf16", "fp16"]
)
@pytest.mark.parametrize("spread", [0, 2])
def test_measured_error_of_the_extensions_stays_below_the_bound(preset, spread):
    n, d, draws = 5, 3000, 20
    q = gqsgd.Quantizer(preset, seed=3)
    generator = np.random.default_rng(1)
    x = generator.standard_normal((n, d)) * np.exp(spread * generator.standard_normal(d))
    x = list(x.astype(np.float32))
    mean = np.mean(np.asarray(x, np.float64), axis=0)
    errors = [
        np.sum((gqsgd.simulate(x, q, schedule="direct", step=step) - mean) ** 2)
        for step in range(draws)
    ]
    squares = sum(np.sum(v.astype(float) ** 2) for v in x)
    bound = gqsgd.variance_bound(q, n, d, "direct") / n * squares
    assert 0 < np.mean(errors) <= bound


def error_over_bound(q, x, schedule="direct"):
    """Both in units of 2^-280, since squares of the smallest values are zero in float64 too."""
    mean = np.mean(np.asarray(x, np.float64), axis=0)
    errors = [
        np.sum(((gqsgd.simulate(x, q, schedule=schedule, step=step) - mean) * 2.0**140) ** 2)
        for step in range(10)
    ]
    squares = sum(np.sum((v.astype(float) * 2.0**140) ** 2) for v in x)
    theta = gqsgd.variance_bound(q, len(x), x[0].size, schedule)
    return np.mean(errors) / (theta / len(x) * squares)


@pytest.mark.parametrize("preset", ["paper-gl8", "paper-ge8", "paper-ge4", "blocks-8", "rotated-8"])
def test_the_bound_holds_while_steps_are_normal_numbers_and_no_further(preset):
    q, values = gqsgd.Quantizer(preset), np.random.default_rng(2).standard_normal((4, 256))
    # Of a norm of 127 * 2^-126 a step is 2^-126; a rotation keeps y within 1/64 of the values.
    smallest = (values * (127 * 64 * 2.0**-126)).astype(np.float32)
    assert 0 < error_over_bound(q, list(smallest)) < 1
    if preset in ("paper-gl8", "blocks-8", "rotated-8"):
        few = np.clip(np.rint(values * 3), -8, 8) * 2.0**-149
        assert error_over_bound(q, list(few.astype(np.float32))) > 1


def test_biased_rounding_has_no_bound():
    with pytest.raises(gqsgd.Unsupported, match="nearest"):
        gqsgd.variance_bound(gqsgd.Quantizer("paper-gl8", rounding="nearest"), 4, 1000)


def test_predicted_time_follows_its_constants():
    q = gqsgd.Quantizer("paper-ge8")
    slow = gqsgd.predict_time(q, 4, 1_000_000, "ring", constants="byte_ns = 80")
    fast = gqsgd.predict_time(q, 4, 1_000_000, "ring", constants="byte_ns = 0.08  # 100 Gbit/s")
    assert slow > 2 * 3 / 4 * 1_000_000 * 80e-9, "the bytes that a rank sends"
    assert fast < slow / 20
    assert gqsgd.predict_time(q, 100_000, 1_000_000, "tree") > 0


def test_predicted_time_of_auto_is_that_of_the_cheapest_where_constants_are_known():
    q = gqsgd.Quantizer("paper-ge8")
    constants = "latency_ns = 1e6\n"
    times = [gqsgd.predict_time(p, 16, 10_000, schedule, constants=constants)
             for p in (q, gqsgd.Quantizer("none"))
             for schedule in ("ring", "tree", "butterfly", "direct")]
    chosen = gqsgd.predict_time(q, 16, 10_000, constants=constants)
    assert chosen in times
    assert 0.99 * chosen <= min(times), "of near equals the one with fewer steps is taken"
    assert gqsgd.predict_time(q, 16, 10_000) == gqsgd.predict_time(q, 16, 10_000, "direct")


def test_predicted_time_refuses_what_it_cannot_know():
    q = gqsgd.Quantizer("paper-gl8")
    with pytest.raises(gqsgd.InvalidArgument, match='line 2 of the costs: "speed"'):
        gqsgd.predict_time(q, 4, 1000, constants="\nspeed = 3")
    with pytest.raises(gqsgd.Unsupported, match="depends on how many codes are zero"):
        gqsgd.predict_time(q, 4, 1000, "sparse")
    with pytest.raises(gqsgd.InvalidArgument, match="no level left"):
        gqsgd.predict_time(q, 200, 1000, "ring")
