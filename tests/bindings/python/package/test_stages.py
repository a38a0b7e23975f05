"""The stages one by one, and a whole allreduce made of them."""

import ctypes
import dataclasses
import re

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


# Beyond the presets of the paper: what parts are multiples of, and values per norm.
BLOCKS = {
    "paper-gl8,block=64": (64, 64),
    "paper-ge4,block=32,rounding=correlated": (32, 32),
    "paper-gl4,block=2048,rotate=hadamard": (2048, 2048),
    "paper-ge8,rotate=hadamard": (1024, 0),
}
WIDE = {
    "blocks-8": (128, 128),
    "rotated-8": (1024, 128),
    "rotated-4-8": (1024, 128),
    "relative-8": (32, 0),
    "bf16": (32, 0),
    "fp16": (32, 0),
    "levels=exponential,bits_down=4,block=32,rescale=true": (32, 32),
}


class Parts:
    """The shards of docs/FORMAT.md section 10: one per rank, each with its norms."""

    def __init__(self, q, preset, rank_count, value_count):
        self.q, self.count = q, value_count
        self.unit, self.block = (BLOCKS | WIDE).get(preset, (32, 0))
        share = -(-value_count // rank_count)
        self.shard = -(-share // self.unit) * self.unit

    def bounds(self, part):
        return (min(place * self.shard, self.count) for place in (part, part + 1))

    def norms(self, norms, part):
        if not self.block:
            return norms
        first, end = self.bounds(part)
        first_block = first // self.block
        return norms[first_block : first_block + self.q.norm_count(end - first)]


def ring_by_hand(inputs, q, preset):
    """The ring of docs/FORMAT.md section 10 out of stages; one shard per rank."""
    n, results = len(inputs), []
    parts, norms = Parts(q, preset, n, inputs[0].size), global_norms(inputs, q)
    for part in range(n):
        first, end = parts.bounds(part)
        own = parts.norms(norms, part)
        at = dict(size=n, reduction_depth=n - 1, first_value=first if first < end else 0)

        def codes(rank, first=first, end=end, at=at, own=own):
            return gqsgd.quantize(
                inputs[rank][first:end], q, own, site=gqsgd.Site(rank=rank, **at)
            )

        words = codes((part + 1) % n)
        for hop in range(1, n):
            rank = (part + 1 + hop) % n
            site = gqsgd.Site(rank=rank, hop=hop, weight_a=hop, weight_b=1, **at)
            words = gqsgd.reduce(words, codes(rank), q, site=site, count=end - first)
        results.append(
            gqsgd.dequantize(words, q, own, end - first, site=gqsgd.Site(rank=part, **at))
        )
    return np.concatenate(results)


def direct_by_hand(inputs, q, preset):
    """The direct schedule out of stages; one shard per rank."""
    n, results = len(inputs), []
    parts, norms = Parts(q, preset, n, inputs[0].size), global_norms(inputs, q)
    for part in range(n):
        first, end = parts.bounds(part)
        own = parts.norms(norms, part)
        at = dict(size=n, first_value=first if first < end else 0)
        words = [
            gqsgd.quantize(x[first:end], q, own, site=gqsgd.Site(rank=rank, **at))
            for rank, x in enumerate(inputs)
        ]
        owner = gqsgd.Site(rank=part, hop=1, **at)
        total, scales = gqsgd.reduce_many(words, q, own, site=owner, count=end - first)
        assert (total.nbytes, scales.size) == (q.result_size(end - first), own.size)
        results.append(gqsgd.dequantize(total, q, scales, end - first, site=owner))
    return np.concatenate(results)


@pytest.mark.parametrize("rank_count", [1, 2, 3, 5])
@pytest.mark.parametrize("count", [1, 100, 1000])
@pytest.mark.parametrize("schedule", [ring_by_hand, direct_by_hand])
@pytest.mark.parametrize("preset", PRESETS)
def test_stages_by_hand_give_the_bits_of_the_allreduce(preset, schedule, rank_count, count):
    inputs, q = gradients(rank_count, count, seed=count), gqsgd.Quantizer(preset, seed=2)
    name = schedule.__name__.split("_")[0]
    by_hand = schedule(inputs, q, preset)
    assert by_hand.tobytes() == gqsgd.simulate(inputs, q, schedule=name).tobytes()
    if count == 1000:
        assert_within_bound(by_hand, inputs, preset, name)


@pytest.mark.parametrize("rank_count", [1, 2, 3, 5])
@pytest.mark.parametrize("count", [1, 100, 1000, 5000])
@pytest.mark.parametrize(
    ("preset", "schedule"),
    [(preset, ring_by_hand) for preset in BLOCKS]
    + [(preset, direct_by_hand) for preset in BLOCKS | WIDE],
)
def test_stages_of_blocks_by_hand_give_the_bits_of_the_allreduce(
    preset, schedule, rank_count, count
):
    inputs, q = gradients(rank_count, count, seed=count), gqsgd.Quantizer(f"{preset},seed=2")
    by_hand = schedule(inputs, q, preset)
    name = schedule.__name__.split("_")[0]
    assert by_hand.tobytes() == gqsgd.simulate(inputs, q, schedule=name).tobytes()


def test_norms_of_blocks_are_rounded_up_to_16_bits():
    q, (x,) = gqsgd.Quantizer("paper-gl8,block=32"), gradients(1, 1000)
    x[40], x[70], x[97:128] = np.nan, np.float32(3.4028235e38), 0
    x[96] = 0
    norms = gqsgd.norm(x, q, site=gqsgd.Site())
    assert np.isnan(norms[1]) and norms[2] == np.finfo(np.float32).max and norms[3] == 0
    largest = np.array([np.abs(x[k : k + 32]).max() for k in range(128, 1000, 32)])
    assert (norms[4:] >= largest).all() and (norms[4:] <= largest * (1 + 2.0**-7)).all()
    assert (norms[4:].view(np.uint32) % 2**16 == 0).all()


def test_many_blocks_are_the_same_as_few_at_a_time():
    q, (x,) = gqsgd.Quantizer("paper-gl8,block=32"), gradients(1, 40000)
    norms = gqsgd.norm(x, q, site=gqsgd.Site())
    words = gqsgd.quantize(x, q, norms, site=gqsgd.Site())
    values = gqsgd.dequantize(words, q, norms, x.size, site=gqsgd.Site())
    for first in range(0, x.size, 6400):
        site, end = gqsgd.Site(first_value=first), min(first + 6400, x.size)
        own = norms[first // 32 : end // 32]
        assert gqsgd.norm(x[first:end], q, site=site).tobytes() == own.tobytes()
        part = gqsgd.quantize(x[first:end], q, own, site=site)
        assert part.tobytes() == words[first // 4 : end // 4].tobytes()
        back = gqsgd.dequantize(part, q, own, end - first, site=site)
        assert back.tobytes() == values[first:end].tobytes()


@pytest.mark.parametrize("wrong", [1.0000001, -1.0, 3.0e38, 1e-40, -0.0])
def test_norms_off_the_grid_are_refused_by_index_and_value(wrong):
    q, (x,) = gqsgd.Quantizer("paper-gl8,block=32"), gradients(1, 100)
    norms = np.array([1, 2, wrong, 4], np.float32)
    with pytest.raises(gqsgd.InvalidArgument, match=re.escape(f"norms[2] is {norms[2]:.9g},")):
        gqsgd.quantize(x, q, norms, site=gqsgd.Site())


@pytest.mark.parametrize("poison", [np.nan, np.inf, -np.inf])
def test_norms_that_are_not_finite_poison_their_block(poison):
    q, (x,) = gqsgd.Quantizer("paper-gl8,block=32"), gradients(1, 100)
    norms = np.array([4, poison, 4, 4], np.float32)
    words = gqsgd.quantize(x, q, norms, site=gqsgd.Site())
    values = gqsgd.dequantize(words, q, norms, 100, site=gqsgd.Site())
    assert np.isnan(values[32:64]).all() and np.isfinite(np.delete(values, slice(32, 64))).all()


def test_parts_begin_where_blocks_and_rotations_do():
    for preset, first, unit in [("block=256", 128, 256), ("rotated-8", 512, 1024)]:
        q = gqsgd.Quantizer(preset)
        with pytest.raises(gqsgd.InvalidArgument, match=f"multiple of {unit}"):
            gqsgd.norm(np.ones(2048, np.float32), q, site=gqsgd.Site(first_value=first))


def test_what_needs_an_owner_is_not_reduced_in_code_form():
    q, x = gqsgd.Quantizer("blocks-8"), np.ones(128, np.float32)
    site = gqsgd.Site(size=3, reduction_depth=2)
    with pytest.raises(gqsgd.InvalidArgument, match="rescale=true .* reduction_depth = 0"):
        gqsgd.quantize(x, q, np.ones(1, np.float32), site=site)


@pytest.mark.parametrize("preset", ["blocks-8", "paper-gl8,block=128"])
def test_scales_may_take_the_place_of_norms(preset):
    q, (x,) = gqsgd.Quantizer(preset), gradients(1, 1000)
    site = gqsgd.Site(hop=1)
    norms = gqsgd.norm(x, q, site=site)
    words = gqsgd.quantize(x, q, norms, site=site)
    total, scales = gqsgd.reduce_many([words], q, norms, site=site, count=1000)
    assert (scales <= norms).all() and (scales > norms / 2).all()
    result, operands = np.empty_like(total), (ctypes.c_void_p * 1)(words.ctypes.data)
    at, out = norms.ctypes.data, result.ctypes.data
    status = gqsgd._abi.library().gqsgd_reduce_many(
        q._handle, site._pointer(), operands, 1000, at, out, at, None, 0, None
    )
    assert (status, norms.tobytes(), result.tobytes()) == (0, scales.tobytes(), total.tobytes())


def operands(q, count, reduction_depth=1):
    inputs = gradients(2, count)
    norms = global_norms(inputs, q)
    return norms, [
        gqsgd.quantize(x, q, norms,
                       site=gqsgd.Site(rank=rank, size=2, reduction_depth=reduction_depth))
        for rank, x in enumerate(inputs)
    ]


@pytest.mark.parametrize("preset", PRESETS)
def test_reduce_makes_a_new_array_or_writes_where_asked(preset):
    q, site = gqsgd.Quantizer(preset), gqsgd.Site(rank=1, size=2, reduction_depth=1, hop=1)
    _, (a, b) = operands(q, 64)
    before = a.copy(), b.copy()
    new = gqsgd.reduce(a, b, q, site=site)
    out = np.empty_like(b)
    assert gqsgd.reduce(a, b, q, site=site, out=out) is out
    np.testing.assert_array_equal((a, b), before)
    assert gqsgd.reduce(a, b, q, site=site, out=b) is b
    assert new.tobytes() == out.tobytes() == b.tobytes()
    assert a.tobytes() == before[0].tobytes()


def test_reduce_refuses_to_write_over_what_came_from_the_peer():
    q, site = gqsgd.Quantizer(PRESETS[0]), gqsgd.Site(rank=1, size=2, reduction_depth=1, hop=1)
    _, (a, b) = operands(q, 64)
    memory = np.concatenate([a, a[:1]])
    a = memory[:-1]
    before = memory.copy()
    for out in (a, memory[1:]):
        with pytest.raises(gqsgd.InvalidArgument, match="out overlaps a"):
            gqsgd.reduce(a, b, q, site=site, out=out)
        np.testing.assert_array_equal(memory, before)


def test_words_of_all_ranks_may_be_the_rows_of_an_array():
    q = gqsgd.Quantizer("blocks-8")
    norms, words = operands(q, 64, reduction_depth=0)
    expected = gqsgd.reduce_many(words, q, norms, site=gqsgd.Site(size=2), count=64)
    found = gqsgd.reduce_many(np.stack(words), q, norms, site=gqsgd.Site(size=2), count=64)
    np.testing.assert_array_equal(found[0], expected[0])
    with pytest.raises(gqsgd.InvalidArgument, match="words has 0 arrays, site.size is 2"):
        gqsgd.reduce_many(np.stack(words)[:0], q, norms, site=gqsgd.Site(size=2), count=64)


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("count", [1, 3, 61])
def test_reduce_of_all_lanes_leaves_the_tail_as_a_count_would(preset, count):
    q, site = gqsgd.Quantizer(preset), gqsgd.Site(rank=1, size=2, reduction_depth=1, hop=1)
    _, (a, b) = operands(q, count)
    counted = gqsgd.reduce(a, b, q, site=site, count=count)
    assert gqsgd.reduce(a, b, q, site=site).tobytes() == counted.tobytes()


def test_op_sum_is_the_mean_times_the_ranks():
    q, site = gqsgd.Quantizer("paper-gl8"), gqsgd.Site(rank=1, size=2, reduction_depth=1, hop=1)
    norms, (a, b) = operands(q, 64)
    words = gqsgd.reduce(a, b, q, site=site)
    mean = gqsgd.dequantize(words, q, norms, 64, site=site)
    total = gqsgd.dequantize(words, q, norms, 64, site=site, op="sum")
    np.testing.assert_allclose(total, 2 * mean, rtol=1e-6)


def test_dequantize_writes_where_asked():
    q, site = gqsgd.Quantizer("paper-gl8"), gqsgd.Site(size=2, reduction_depth=1)
    norms, (a, _) = operands(q, 60)
    out = np.empty((6, 10), np.float32)
    assert gqsgd.dequantize(a, q, norms, 60, site=site, out=out) is out
    assert out.tobytes() == gqsgd.dequantize(a, q, norms, 60, site=site).tobytes()


def test_buffers_of_the_wrong_size_or_type_never_reach_the_library():
    q, site = gqsgd.Quantizer("paper-gl8"), gqsgd.Site(size=2, reduction_depth=1, hop=1)
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


def test_words_and_norms_in_the_other_byte_order_are_refused():
    q, site = gqsgd.Quantizer("paper-gl8"), gqsgd.Site(size=2, reduction_depth=1, hop=1)
    words, norms = np.arange(1, 5, dtype=np.uint32), np.ones(1, np.float32)
    swapped = words.astype(words.dtype.newbyteorder())
    with pytest.raises(gqsgd.InvalidArgument, match="a is in the byte order of another machine"):
        gqsgd.reduce(swapped, words, q, site=site)
    with pytest.raises(gqsgd.InvalidArgument, match="norms is in the byte order of another"):
        other = norms.astype(norms.dtype.newbyteorder())
        gqsgd.quantize(np.ones(4, np.float32), q, other, site=site)
