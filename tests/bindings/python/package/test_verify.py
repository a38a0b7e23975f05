"""Communicator.verify: equal bits of ranks, of virtual ranks and of the reference."""

import itertools
import sys
from pathlib import Path

import gqsgd
import numpy as np
import pytest
from gqsgd import _abi

sys.path.insert(0, str(Path(__file__).resolve().parents[4] / "reference"))
import write_digests

NATIVE_CALLS = 4  # of the 240; only transports with an allreduce of their own have them
COMPARED = 240 - NATIVE_CALLS


@pytest.mark.parametrize("options", [
    {}, {"nodes": [0, 1, 0]}, {"stream_id": 5, "threads": 2}, {"checksum": "crc32c"},
    {"chunk_value_count": 512},
], ids=str)
def test_all_ranks_have_the_bits_of_virtual_ranks(options):
    def verify(comm):
        comm.counter = 9
        return comm.verify(), comm.counter

    assert gqsgd.run_local(3, verify, **options) == [(gqsgd.Verified(COMPARED), 9)] * 3


@pytest.mark.parametrize("ranks", [1, 2, 5])
def test_numbers_of_ranks(ranks):
    made = gqsgd.run_local(ranks, lambda comm: comm.verify())
    assert made == [gqsgd.Verified(COMPARED)] * ranks


@pytest.mark.parametrize("wrong", [0, 2])
def test_a_wrong_bit_on_one_rank_is_found_and_that_rank_named_on_all(wrong):
    def verify(comm):
        with pytest.raises(gqsgd.Integrity) as raised:
            comm.verify(flipped_rank=wrong)
        return raised.value, comm.verify()

    sentences = set()
    for error, after in gqsgd.run_local(3, verify):
        assert error.differing == {wrong: 2}  # one of the group, one of its virtual ranks
        assert after == gqsgd.Verified(COMPARED)  # the communicator stays usable
        sentences.add(str(error))
    (sentence,) = sentences
    assert f"ranks whose results differ: {wrong}. On rank {wrong}: 1 of {COMPARED} " in sentence
    assert "first none, ring, float32: digest " in sentence
    requests = write_digests.requests()
    assert f"of the reference {write_digests.digest(0, *requests[0]):016x}" in sentence


@pytest.mark.parametrize("wrong", [-2, 3])
def test_a_rank_that_is_none_of_the_group_is_refused(wrong):
    def verify(comm):
        with pytest.raises(gqsgd.InvalidArgument, match=f"flipped_rank is {wrong}; .* 0 to 2"):
            comm.verify(flipped_rank=wrong)

    gqsgd.run_local(3, verify)


def test_a_rank_alone_with_a_wrong_argument_does_not_keep_the_others_waiting():
    def verify(comm):
        is_wrong = comm.rank == 1
        with pytest.raises(gqsgd.InvalidArgument if is_wrong else gqsgd.RemoteError) as raised:
            comm.verify(flipped_rank=3 if is_wrong else -1)
        return str(raised.value), comm.verify()

    sentences = [sentence for sentence, _ in gqsgd.run_local(3, verify, timeout_ms=20000)]
    assert "flipped_rank is 3" in sentences[1]
    assert "rank 1 refused its own call with INVALID_ARGUMENT" in sentences[0]


def test_every_combination_that_the_library_has_is_compared():
    """Presets, schedules and types that are added later need digests too."""
    values = {name: np.ones(4, name) for name in ("float32", "float16", "float64")}
    supported = set()
    for preset, schedule, dtype in itertools.product(gqsgd.PRESETS, _abi.SCHEDULES, values):
        q = gqsgd.Quantizer(preset)
        try:
            gqsgd.simulate([values[dtype]] * 3, q, schedule=schedule, nodes=[0, 0, 1])
        except (gqsgd.InvalidArgument, gqsgd.Unsupported):
            continue
        supported.add((preset, schedule, dtype))
    floats = {("none", "native", dtype) for dtype in values}  # a transport's own order of sums
    auto = {case for case in supported if case[1] == "auto"}  # one of the others
    compared = {case for case in write_digests.requests() if case[2] in values}
    assert supported - floats - auto == compared


def test_a_closed_communicator_is_refused():
    (comm,) = gqsgd.Communicator.local(1)
    comm.close()
    with pytest.raises(gqsgd.BadHandle):
        comm.verify()
