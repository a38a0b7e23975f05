"""The stages one by one, and a whole allreduce made of them."""

import dataclasses

import gqsgd
import numpy as np
import pytest
from bounds import PRESETS, assert_within_bound, gradients
from hypothesis import given
from hypothesis import strategies as st

# The interval that a value is rounded in is at most (first * |value| + second * norm) wide.
LEVELS = {
    "paper-gl8": (0, 1 / 127),
    "paper-gl4": (0, 1 / 7),
    "paper-ge8": (1, 2.0**-126),
    "paper-ge4": (1, 2.0**-6),
}


def global_norms(inputs, q):
    norms = [
        gqsgd.norm(x, q, site=gqsgd.Site(rank=r, size=len(inputs))) for r, x in enumerate(inputs)
    ]
    return np.maximum.reduce(norms)


def test_a_site_is_a_value_with_named_fields():
    site = gqsgd.Site(rank=2, size=4, hop=1)
    assert site == gqsgd.Site(size=4, rank=2, hop=1) != gqsgd.Site(rank=2, size=4)
    assert hash(site) == hash(gqsgd.Site(size=4, rank=2, hop=1))
    assert dataclasses.replace(site, hop=2) == gqsgd.Site(rank=2, size=4, hop=2)
    assert (gqsgd.Site().size, gqsgd.Site().weight_a, gqsgd.Site().weight_b) == (1, 1, 1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        site.hop = 2
    with pytest.raises(TypeError):
        gqsgd.Site(2, 4)


@pytest.mark.parametrize("field", [field.name for field in dataclasses.fields(gqsgd.Site)])
@pytest.mark.parametrize("number", [-1, 2**64])
def test_a_site_refuses_numbers_that_do_not_fit(field, number):
    with pytest.raises(gqsgd.InvalidArgument, match=field):
        gqsgd.Site(**{field: number})


def test_norm_is_the_largest_magnitude_and_shows_what_is_not_finite():
    q, site = gqsgd.Quantizer("paper-gl8"), gqsgd.Site()
    x = np.array([[1, -3], [2, 0]], np.float32)
    norms = gqsgd.norm(x, q, site=site)
    assert (norms.dtype, norms.tolist()) == (np.float32, [3.0])
    assert gqsgd.norm(np.float32([1, -np.inf]), q, site=site).tolist() == [np.inf]
    assert np.isnan(gqsgd.norm(np.float32([1, np.nan, np.inf]), q, site=site)[0])
    assert gqsgd.norm(np.zeros(0, np.float32), q, site=site).tolist() == [0.0]


@given(
    preset=st.sampled_from(PRESETS),
    count=st.integers(0, 300),
    seed=st.integers(0, 2**32 - 1),
    scale=st.sampled_from([1e-40, 1e-20, 1.0, 1e30]),
)
def test_values_come_back_within_one_step(preset, count, seed, scale):
    q, site = gqsgd.Quantizer(preset, seed=seed), gqsgd.Site(step=seed)
    (x,) = gradients(1, count, seed)
    x = (x * scale).astype(np.float32)
    norms = gqsgd.norm(x, q, site=site)
    words = gqsgd.quantize(x, q, norms, site=site)
    assert (words.dtype, words.nbytes) == (np.uint32, q.packed_size(count))
    y = gqsgd.dequantize(words, q, norms, count, site=site)
    assert (y.shape, y.dtype) == ((count,), np.float32)
    if preset == "none":
        assert y.tobytes() == x.tobytes()
    else:
        step, smallest_level = LEVELS[preset]
        interval = norms.astype(float) * smallest_level + np.abs(x.astype(float)) * step
        assert (np.abs(y.astype(float) - x) <= interval * (1 + 1e-5) + 2.0**-149).all()


@pytest.mark.parametrize(("order", "p"), [("1", 1), ("2", 2), ("inf", np.inf)])
def test_norms_of_other_orders(order, p):
    (x,) = gradients(1, 1000)
    q = gqsgd.Quantizer("paper-gl8", norm=(order, "inf"))
    norms = gqsgd.norm(x, q, site=gqsgd.Site())
    np.testing.assert_allclose(norms, np.linalg.norm(x.astype(float), p), rtol=1e-6)


def test_quantize_depends_on_the_site_and_on_nothing_else():
    q, (x,) = gqsgd.Quantizer("paper-gl8"), gradients(1, 1000)
    norms = gqsgd.norm(x, q, site=gqsgd.Site())
    sites = [gqsgd.Site(), gqsgd.Site(step=1), gqsgd.Site(index=1), gqsgd.Site(rank=1, size=2)]
    words = [gqsgd.quantize(x, q, norms, site=site).tobytes() for site in sites]
    assert len(set(words[:3])) == 3
    assert words == [gqsgd.quantize(x, q, norms, site=site).tobytes() for site in sites]


def ring_by_hand(inputs, q):
    """The ring of docs/FORMAT.md section 10 out of stages; one shard per rank."""
    n, count = len(inputs), inputs[0].size
    shard = (-(-count // n) + 31) // 32 * 32
    norms, parts = global_norms(inputs, q), []
    for part in range(n):
        first, end = min(part * shard, count), min((part + 1) * shard, count)
        at = dict(size=n, combines=n - 1, first_value=part * shard)

        def codes(rank, first=first, end=end, at=at):
            return gqsgd.quantize(
                inputs[rank][first:end], q, norms, site=gqsgd.Site(rank=rank, **at)
            )

        words = codes((part + 1) % n)
        for hop in range(1, n):
            rank = (part + 1 + hop) % n
            site = gqsgd.Site(rank=rank, hop=hop, weight_a=hop, weight_b=1, **at)
            words = gqsgd.reduce(words, codes(rank), q, site=site, count=end - first)
        parts.append(
            gqsgd.dequantize(words, q, norms, end - first, site=gqsgd.Site(rank=part, **at))
        )
    return np.concatenate(parts)


def direct_by_hand(inputs, q):
    """The direct schedule out of stages; one shard per rank."""
    n, count = len(inputs), inputs[0].size
    shard = (-(-count // n) + 31) // 32 * 32
    norms, parts = global_norms(inputs, q), []
    for part in range(n):
        first, end = min(part * shard, count), min((part + 1) * shard, count)
        at = dict(size=n, first_value=part * shard)
        words = [
            gqsgd.quantize(x[first:end], q, norms, site=gqsgd.Site(rank=rank, **at))
            for rank, x in enumerate(inputs)
        ]
        owner = gqsgd.Site(rank=part, hop=1, **at)
        total, scales = gqsgd.reduce_many(words, q, norms, site=owner, count=end - first)
        parts.append(gqsgd.dequantize(total, q, scales, end - first, site=owner))
    return np.concatenate(parts)


@pytest.mark.parametrize("rank_count", [1, 2, 3, 5])
@pytest.mark.parametrize("count", [1, 100, 1000])
@pytest.mark.parametrize("schedule", [ring_by_hand, direct_by_hand])
@pytest.mark.parametrize("preset", PRESETS)
def test_stages_by_hand_give_the_bits_of_the_allreduce(preset, schedule, rank_count, count):
    inputs, q = gradients(rank_count, count, seed=count), gqsgd.Quantizer(preset, seed=2)
    name = schedule.__name__.split("_")[0]
    by_hand = schedule(inputs, q)
    assert by_hand.tobytes() == gqsgd.simulate(inputs, q, schedule=name).tobytes()
    if count == 1000:
        assert_within_bound(by_hand, inputs, preset, name)


def operands(q, count, combines=1):
    inputs = gradients(2, count)
    norms = global_norms(inputs, q)
    return norms, [
        gqsgd.quantize(x, q, norms, site=gqsgd.Site(rank=rank, size=2, combines=combines))
        for rank, x in enumerate(inputs)
    ]


@pytest.mark.parametrize("preset", PRESETS)
def test_reduce_makes_a_new_array_or_writes_where_asked(preset):
    q, site = gqsgd.Quantizer(preset), gqsgd.Site(rank=1, size=2, combines=1, hop=1)
    _, (a, b) = operands(q, 64)
    before = a.copy(), b.copy()
    new = gqsgd.reduce(a, b, q, site=site)
    out = np.empty_like(b)
    assert gqsgd.reduce(a, b, q, site=site, out=out) is out
    np.testing.assert_array_equal((a, b), before)
    assert gqsgd.reduce(a, b, q, site=site, out=b) is b
    assert new.tobytes() == out.tobytes() == b.tobytes()
    assert a.tobytes() == before[0].tobytes()


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("count", [1, 3, 61])
def test_reduce_of_all_lanes_leaves_the_tail_as_a_count_would(preset, count):
    q, site = gqsgd.Quantizer(preset), gqsgd.Site(rank=1, size=2, combines=1, hop=1)
    _, (a, b) = operands(q, count)
    counted = gqsgd.reduce(a, b, q, site=site, count=count)
    assert gqsgd.reduce(a, b, q, site=site).tobytes() == counted.tobytes()


def test_op_sum_is_the_mean_times_the_ranks():
    q, site = gqsgd.Quantizer("paper-gl8"), gqsgd.Site(rank=1, size=2, combines=1, hop=1)
    norms, (a, b) = operands(q, 64)
    words = gqsgd.reduce(a, b, q, site=site)
    mean = gqsgd.dequantize(words, q, norms, 64, site=site)
    total = gqsgd.dequantize(words, q, norms, 64, site=site, op="sum")
    np.testing.assert_allclose(total, 2 * mean, rtol=1e-6)


def test_dequantize_writes_where_asked():
    q, site = gqsgd.Quantizer("paper-gl8"), gqsgd.Site(size=2, combines=1)
    norms, (a, _) = operands(q, 60)
    out = np.empty((6, 10), np.float32)
    assert gqsgd.dequantize(a, q, norms, 60, site=site, out=out) is out
    assert out.tobytes() == gqsgd.dequantize(a, q, norms, 60, site=site).tobytes()


def test_buffers_of_the_wrong_size_or_type_never_reach_the_library():
    q, site = gqsgd.Quantizer("paper-gl8"), gqsgd.Site(size=2, combines=1, hop=1)
    norms, (a, b) = operands(q, 64)
    x = np.zeros(64, np.float32)
    refused = [
        lambda: gqsgd.quantize(x, q, np.zeros(2, np.float32), site=site),
        lambda: gqsgd.quantize(x, q, np.zeros(1, np.float64), site=site),
        lambda: gqsgd.quantize(x, q, 3.0, site=site),
        lambda: gqsgd.reduce(a[:-1], b, q, site=site),
        lambda: gqsgd.reduce(a.view(np.int32), b, q, site=site),
        lambda: gqsgd.reduce(a, b, q, site=site, out=np.empty(3, np.uint32)),
        lambda: gqsgd.reduce(np.zeros(32, np.uint32)[::2], b, q, site=site),
        lambda: gqsgd.reduce(a, b, q, site=site, count=65),
        lambda: gqsgd.reduce_many([a], q, norms, site=site),
        lambda: gqsgd.reduce_many([], q, norms, site=gqsgd.Site(size=0)),
        lambda: gqsgd.reduce_many([a, b[:-1]], q, norms, site=site),
        lambda: gqsgd.dequantize(a, q, norms, 65, site=site),
        lambda: gqsgd.dequantize(a, q, norms, -1, site=site),
        lambda: gqsgd.dequantize(a, q, norms, 64, site=site, out=np.zeros(63, np.float32)),
        lambda: gqsgd.dequantize(a, q, norms, 64, site=site, op="median"),
    ]
    for call in refused:
        with pytest.raises(gqsgd.InvalidArgument):
            call()


@pytest.mark.parametrize(
    "site",
    [{"rank": 2, "size": 2}, {"size": 0}, {"step": 2**32}, {"index": 2**16}, {"first_value": 3}],
)
def test_impossible_sites_are_refused_by_the_library(site):
    q = gqsgd.Quantizer("paper-gl8")
    with pytest.raises(gqsgd.InvalidArgument, match=list(site)[0]):
        gqsgd.quantize(np.ones(64, np.float32), q, np.ones(1, np.float32), site=gqsgd.Site(**site))
