"""Tensors and slices in the reference: what must hold whatever the bits are."""

import numpy as np
import pytest
from gqsgd_reference.allreduce import Request, allreduce
from gqsgd_reference.floats import bits, float32_of
from gqsgd_reference.random import Call
from gqsgd_reference.segments import (allgather, allreduce_many, first_values, hash_of,
                                      reduce_scatter)
from vector_files.support.edges import generated

LENGTHS = (300, 1, 0, 1000, 33)
CALL = Call(seed=5, step=2)
LINEAR = {"levels": "linear", "bits": 8, "combine": "exact"}


def inputs(rank_count=3, value_count=sum(LENGTHS)):
    return [bits(generated(1, rank, value_count)) for rank in range(rank_count)]


def split(patterns):
    return np.split(patterns, np.cumsum(LENGTHS)[:-1])


@pytest.mark.parametrize("schedule", ["ring", "tree", "butterfly", "direct"])
@pytest.mark.parametrize("block", [32, 128])
def test_blocks_of_tensors_are_those_of_one_flat_call(schedule, block):
    request = Request(schedule, **LINEAR, block=block, call=CALL)
    firsts, count = first_values(request, LENGTHS)
    flat = []
    for patterns in inputs():
        whole = np.zeros(count, dtype=np.uint32)
        for first, tensor in zip(firsts, split(patterns)):
            whole[first:first + len(tensor)] = tensor
        flat.append(whole)
    expected = allreduce(request, flat).values
    for first, tensor in zip(firsts, allreduce_many(request, [split(x) for x in inputs()])):
        np.testing.assert_array_equal(tensor, expected[first:first + len(tensor)])


def test_one_tensor_is_an_allreduce():
    for fields in ({}, {"q": "2", "p": "1"}, {"rotate": "hadamard"},
                   {"block": 64, "rescale": True}):
        request = Request("direct", **LINEAR, **fields, call=CALL)
        (tensor,) = allreduce_many(request, [[x] for x in inputs()])
        np.testing.assert_array_equal(tensor, allreduce(request, inputs()).values)


def test_a_reduce_scatter_without_levels_adds_in_rank_order():
    request = Request("direct", "none", 32, "sum", op="sum", call=CALL)
    values = [float32_of(x) for x in inputs()]
    expected = bits((values[0] + values[1]) + values[2])
    slices = reduce_scatter(request, inputs(), (300, 0, 1034))
    np.testing.assert_array_equal(np.concatenate(slices), expected)


def test_an_allgather_rounds_once_by_each_slices_own_norm():
    request = Request("direct", **LINEAR, call=CALL)
    slices = [inputs()[0][:500], bits(float32_of(inputs()[1][:400]) * np.float32(1e-9))]
    for own, result in zip(slices, allgather(request, slices)):
        values, norm = float32_of(own), np.abs(float32_of(own)).max()
        assert np.abs(float32_of(result) - values).max() < norm / 126


def test_lengths_are_hashed_in_order():
    assert hash_of([]) == 0xCBF29CE484222325
    assert len({hash_of(x) for x in ([0], [0, 0], [1], [1, 0], [0, 1], [256], [2**40])}) == 7
