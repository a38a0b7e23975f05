"""Communicator.stats: the counters and the ratio of compression."""

import math

import gqsgd
import numpy as np
import pytest


def test_stats_name_every_counter():
    def work(comm):
        before = comm.stats()
        comm.allreduce(np.ones(1000, np.float32), gqsgd.Quantizer("paper-gl8"), schedule="ring")
        return before, comm.stats()

    for before, after in gqsgd.run_local(2, work):
        assert tuple(before) == gqsgd._abi.STAT_NAMES
        assert isinstance(before, gqsgd.Stats) and math.isnan(before.ratio)
        assert after.since(before) == after
        assert (before["calls"], after["calls"]) == (0, 1)
        assert after["payload_bytes_sent"] == 1000 or after["payload_bytes_sent"] == 1024
        assert after["header_bytes_sent"] > 0
        assert after["uncompressed_bytes_sent"] == 4000
        assert after.ratio == 4000 / after["payload_bytes_sent"]


def test_named_counters_alone():
    def work(comm):
        comm.allreduce(np.ones(1000, np.float32), gqsgd.Quantizer())
        with pytest.raises(gqsgd.GqsgdError, match="byts"):
            comm.stats("byts")
        return comm.stats("calls", "wait_ns"), comm.stats()

    for some, every in gqsgd.run_local(2, work):
        assert some == {name: every[name] for name in ("calls", "wait_ns")}


@pytest.mark.parametrize(
    ("preset", "least", "most"),
    [("none", 1, 1), ("blocks-8", 3.5, 4), ("rotated-4-8", 4.9, 5.4), ("rotated-4", 7, 8)],
)
def test_the_ratio_is_that_of_the_format(preset, least, most):
    def work(comm):
        comm.allreduce(np.ones(2**16, np.float32), gqsgd.Quantizer(preset))
        return comm.stats().ratio

    for ratio in gqsgd.run_local(2, work):
        assert least <= ratio <= most


@pytest.mark.parametrize("preset", ["rice-4", "adaptive-4", "blocks-8"])
@pytest.mark.parametrize("counts", [[100], [1000], [5000], [50] * 40])
def test_float32_has_the_values_that_were_given(preset, counts):
    """Groups are filled up, and tensors of a list have gaps in between."""

    def work(comm):
        arrays = [np.ones(count, np.float32) for count in counts]
        comm.allreduce_many(arrays, gqsgd.Quantizer(preset))
        return comm.stats()["uncompressed_bytes_sent"]

    assert sum(gqsgd.run_local(2, work)) == 2 * 4 * sum(counts)


@pytest.mark.parametrize(("name", "kind", "sentence"), [
    (1, TypeError, "name is 1, a int; a string is needed"),
    ("calls\0", gqsgd.InvalidArgument, "holds a NUL character"),
])
def test_what_is_no_name_of_a_counter_is_refused(name, kind, sentence):
    with gqsgd.Communicator.local(1)[0] as comm, pytest.raises(kind, match=sentence):
        comm.stats(name)


def test_a_group_of_one_has_no_ratio():
    def work(comm):
        comm.allreduce(np.ones(1000, np.float32), gqsgd.Quantizer())
        return comm.stats().ratio

    assert math.isnan(gqsgd.run_local(1, work)[0])
