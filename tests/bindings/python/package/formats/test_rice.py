"""The presets rice-3 to rice-6 as a user meets them: error and bytes beside adaptive widths, types,
lists, slices, special values, and what they refuse."""

import gqsgd
import numpy as np
import pytest

RANKS = 3


@pytest.fixture(scope="module")
def gradients():
    """Of layers and rows of different sizes."""
    random = np.random.default_rng(3)
    sizes = np.exp(2 * random.standard_normal(100_000 // 64)).repeat(64)
    return (random.standard_normal((RANKS, sizes.size)) * sizes).astype(np.float32)


def error(result, inputs):
    mean = np.mean(inputs, axis=0, dtype=np.float64)
    return np.sum((result - mean) ** 2) / np.sum(mean ** 2)


def everywhere(inputs, call):
    """What `call(comm, rank)` returns on each rank."""
    return gqsgd.run_local(len(inputs), lambda comm: call(comm, comm.rank))


@pytest.mark.parametrize("bits", (3, 4, 5, 6))
def test_less_error_than_adaptive_widths_with_no_more_bytes(gradients, bits):
    found = {}
    for name in (f"rice-{bits}", f"adaptive-{bits}"):
        def call(comm, rank, q=gqsgd.Quantizer(name)):
            result = comm.allreduce(gradients[rank], q, schedule="direct")
            return result, comm.stats()["payload_bytes_sent"]

        results = everywhere(gradients, call)
        assert all(np.array_equal(result, results[0][0]) for result, _ in results)
        found[name] = error(results[0][0], gradients), sum(sent for _, sent in results)
    (rice, rice_bytes), (adaptive, adaptive_bytes) = found.values()
    assert 0 < rice < adaptive / 3
    assert rice_bytes <= adaptive_bytes


@pytest.mark.parametrize("dtype", (np.float16, np.float64))
@pytest.mark.parametrize("op", ("sum", "mean"))
def test_other_types_are_float32_rounded(gradients, dtype, op):
    values = np.clip(gradients, -100, 100).astype(np.float16)
    q = gqsgd.Quantizer("rice-4")
    expected = gqsgd.simulate(list(values.astype(np.float32)), q, op=op, schedule="direct")
    result = gqsgd.simulate(list(values.astype(dtype)), q, op=op, schedule="direct")
    assert result.dtype == dtype
    exact = np.float32(2 ** -10) if dtype == np.float16 else 0
    np.testing.assert_allclose(result.astype(np.float64), expected, rtol=exact, atol=2 ** -24)


def test_lists_and_slices(gradients):
    q = gqsgd.Quantizer("rice-5", seed=2)
    cuts = [5, 5, 40_000, 40_033]
    tensors = [np.split(values, cuts) for values in gradients]
    means = everywhere(gradients, lambda comm, rank: comm.allreduce_many(tensors[rank], q))
    for mean in means:
        assert error(np.concatenate(mean), gradients) < 1e-3
        assert all(np.array_equal(a, b) for a, b in zip(mean, means[0]))
    own = everywhere(gradients, lambda comm, rank: comm.reduce_scatter(gradients[rank], q))
    assert error(np.concatenate(own), gradients) < 1e-3
    gathered = everywhere(gradients, lambda comm, rank: comm.allgather(gradients[rank], q))
    assert error(gathered[1].ravel(), [gradients.ravel()]) < 1e-2


def test_cells_with_nan_are_nan_and_zeros_stay_zeros(gradients):
    inputs = gradients.copy()
    inputs[1, 1000] = np.nan
    inputs[:, 5000:5100] = 0
    result = gqsgd.simulate(list(inputs), gqsgd.Quantizer("rice-4"), schedule="direct")
    assert list(np.flatnonzero(np.isnan(result))) == list(range(992, 1024))
    assert not result[5000:5100].any()


def direct_by_hand(inputs, q, dtype=np.float32, op="mean", **at):
    """The direct schedule out of stages: each owner gets the words of its own groups alone."""
    size, count, norms = len(inputs), inputs[0].size, np.zeros(1, np.float32)
    sites = [gqsgd.Site(rank=rank, size=size, **at) for rank in range(size)]
    groups = gqsgd.rice_groups(q, count, site=sites[0])
    codes = [gqsgd.quantize(x, q, norms, site=site) for x, site in zip(inputs, sites)]
    sums = []
    for rank in range(size):
        own = groups.owned_by(rank, size)
        place = slice(own.start * groups.words_each, own.stop * groups.words_each)
        received = [words[place].copy() for words in codes]
        owner = gqsgd.Site(rank=rank, size=size, hop=1, **at)
        sums.append(gqsgd.reduce_rice(received, q, own, site=owner, count=count))
        assert sums[-1].size == len(own) * groups.result_words_each
    total = np.concatenate(sums)
    return gqsgd.dequantize(total, q, norms, count, site=sites[0], op=op, dtype=dtype)


@pytest.mark.parametrize("rank_count", (1, 2, 5, 16))
@pytest.mark.parametrize("dtype", (np.float32, np.float16, np.float64))
def test_stages_by_hand_give_the_bits_of_the_allreduce(rank_count, dtype):
    random, q = np.random.default_rng(rank_count), gqsgd.Quantizer("rice-4", seed=5)
    for count, op in ((1, "mean"), (33, "sum"), (8193, "mean"), (40_001, "sum")):
        inputs = [random.standard_normal(count).astype(dtype) for _ in range(rank_count)]
        if count > 1000:
            inputs[-1][1000] = np.nan
        results = everywhere(inputs, lambda comm, rank: comm.allreduce(
            inputs[rank], q, op=op, schedule="direct", step=3, index=2))
        by_hand = direct_by_hand(inputs, q, dtype, op, step=3, index=2)
        assert np.isnan(by_hand).sum() == (32 if count > 1000 else 0)
        assert all(by_hand.tobytes() == result.tobytes() for result in results), (count, op)


def test_sums_of_another_hop_have_other_bits_and_are_as_right(gradients):
    q, norms, count = gqsgd.Quantizer("rice-4"), np.zeros(1, np.float32), gradients[0].size
    codes = [gqsgd.quantize(x, q, norms, site=gqsgd.Site(rank=rank, size=RANKS))
             for rank, x in enumerate(gradients)]
    of_calls, others = (
        gqsgd.reduce_rice(codes, q, range(gqsgd.rice_groups(q, count, site=site).count),
                          site=site, count=count)
        for site in (gqsgd.Site(size=RANKS, hop=1), gqsgd.Site(size=RANKS, hop=0)))
    assert of_calls.tobytes() != others.tobytes()
    errors = [error(gqsgd.dequantize(words, q, norms, count, site=gqsgd.Site(size=RANKS)),
                    gradients) for words in (of_calls, others)]
    assert errors[0] == pytest.approx(errors[1], rel=0.1)


def test_reduce_many_is_the_sum_of_all_groups_by_one_rank(gradients):
    q, site = gqsgd.Quantizer("rice-5"), gqsgd.Site(size=RANKS, hop=1)
    norms = gqsgd.norm(gradients[0], q, site=site)
    assert norms.tolist() == [0]
    codes = [gqsgd.quantize(x, q, norms, site=gqsgd.Site(rank=rank, size=RANKS))
             for rank, x in enumerate(gradients)]
    count = gradients[0].size
    words, scales = gqsgd.reduce_many(codes, q, norms, site=site, count=count)
    groups = gqsgd.rice_groups(q, count, site=site)
    all_groups = range(groups.count)
    assert words.tobytes() == gqsgd.reduce_rice(codes, q, all_groups, site=site,
                                                count=count).tobytes()
    assert scales.tolist() == [0]
    values = gqsgd.dequantize(words, q, scales, count, site=site)
    assert error(values, gradients) < 0.01
    assert sum(len(groups.owned_by(rank, 7)) for rank in range(7)) == groups.count
    assert codes[0].nbytes <= q.packed_size(count) < codes[0].nbytes + 16 * groups.count


def test_what_stages_refuse(gradients):
    q, site, count = gqsgd.Quantizer("rice-4"), gqsgd.Site(size=2), 20_000
    groups = gqsgd.rice_groups(q, count, site=site)
    two = np.zeros(2 * groups.words_each, np.uint32)
    norms = np.zeros(1, np.float32)
    refused = {
        "gqsgd_rice_groups is for levels=rice":
            lambda: gqsgd.rice_groups(gqsgd.Quantizer(), count, site=site),
        "count is -1": lambda: gqsgd.rice_groups(q, -1, site=site),
        "groups is range": lambda: gqsgd.reduce_rice([two] * 2, q, range(0, 4, 2), site=site,
                                                     count=count),
        "the call has 2 groups": lambda: gqsgd.reduce_rice([two] * 2, q, range(1, 3), site=site,
                                                           count=count),
        "groups.start is -2": lambda: gqsgd.reduce_rice([two] * 2, q, range(-2, 0), site=site,
                                                        count=count),
        "words has 1 arrays": lambda: gqsgd.reduce_rice([two], q, range(2), site=site,
                                                        count=count),
        r"words\[1\] ": lambda: gqsgd.reduce_rice([two, two[:-1]], q, range(2), site=site,
                                                  count=count),
        "do not tell how many values": lambda: gqsgd.reduce_many([two] * 2, q, norms, site=site),
        "first_value is 1024; with levels=rice": lambda: gqsgd.quantize(
            gradients[0], q, norms, site=gqsgd.Site(size=2, first_value=1024)),
        "levels=rice needs codes that are added by reduce_many": lambda: gqsgd.quantize(
            gradients[0], q, norms, site=gqsgd.Site(size=2, reduction_depth=1)),
    }
    for sentence, call in refused.items():
        with pytest.raises(gqsgd.InvalidArgument, match=sentence):
            call()


def test_what_it_refuses():
    q = gqsgd.Quantizer("rice-4")
    values = [np.ones(100, np.float32)] * 2
    assert repr(gqsgd.Quantizer("rice-4,seed=3")) == "Quantizer('rice-4,seed=3')"
    assert gqsgd.Quantizer(q.spec) == q
    with pytest.raises(gqsgd.InvalidArgument, match="levels=rice needs mean_bits"):
        gqsgd.Quantizer("levels=rice")
    with pytest.raises(gqsgd.InvalidArgument, match="levels=rice needs an owner that adds wide"):
        gqsgd.simulate(values, q, schedule="ring")
    with pytest.raises(gqsgd.Unsupported, match="expected_error"):
        gqsgd.variance_bound(q, 2, 100)
    assert gqsgd.expected_error(q, values, schedule="direct") >= 0
