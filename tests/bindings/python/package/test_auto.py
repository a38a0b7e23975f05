"""schedule="auto" with constants: the cheapest choice, the same in ranks and in a simulation."""

from functools import partial

import gqsgd
import numpy as np
import pytest
from test_transport import run_custom

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


# Nanoseconds of a value, and of a range; and of a byte.
COSTLY_CODES = "correlated.quantize=100 100 0;linear8.quantize=100 100 0;byte_ns=10;"


@pytest.mark.parametrize(
    ("spec", "floats"),
    [("blocks-8,seed=4", "bf16,seed=4"),
     ("paper-gl8,seed=4,rounding=nearest", "bf16,seed=4,rounding=nearest")],
)
def test_bf16_goes_where_codes_cost_much_and_bytes_too(spec, floats):
    q, inputs = gqsgd.Quantizer(spec), inputs_of(100_000)
    direct = {"schedule": "direct", "step": 3}
    as_bf16 = gqsgd.simulate(inputs, gqsgd.Quantizer(floats), **direct)
    np.testing.assert_array_equal(reduced(inputs, q, costs=COSTLY_CODES), as_bf16)
    np.testing.assert_array_equal(gqsgd.simulate(inputs, q, step=3, costs=COSTLY_CODES), as_bf16)
    forbidden = reduced(inputs, q, costs=COSTLY_CODES, uncompressed="never")
    np.testing.assert_array_equal(forbidden, gqsgd.simulate(inputs, q, **direct))


def test_bf16_is_chosen_for_requests_and_lists_in_the_memory_that_was_reserved():
    q, inputs = gqsgd.Quantizer("blocks-8,seed=4"), inputs_of(100_000)

    def work(quantizer, schedule, comm):
        comm.reserve(q, 100_000)
        reserved, own = comm.stats()["workspace_bytes"], inputs[comm.rank]
        how = {"q": quantizer, "schedule": schedule}
        started = comm.allreduce_start(own, step=1, **how).wait()
        aligned = 60_032  # where blocks of the format that was asked for begin
        many = comm.allreduce_many([own[:aligned], own[aligned:]], step=2, **how)
        assert comm.stats()["workspace_bytes"] == reserved
        return started, np.concatenate(many), comm.stats()["payload_bytes_sent"]

    bf16 = gqsgd.Quantizer("bf16,seed=4")
    chosen = gqsgd.run_local(RANKS, partial(work, q, "auto"), costs=COSTLY_CODES)
    named = gqsgd.run_local(RANKS, partial(work, bf16, "direct"), costs=COSTLY_CODES)
    for one, other in zip(chosen, named, strict=True):
        np.testing.assert_array_equal(one[0], other[0])
        np.testing.assert_array_equal(one[1], other[1])
        assert one[2] == other[2]


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


# costs="measure": ranks measure what they choose by, and say what they found.

Q = gqsgd.Quantizer("blocks-8", seed=5)
COUNTS = 1, 900, 40_000, 500_000


def values_of(count, ranks):
    generator = np.random.default_rng(count)
    return [generator.standard_normal(count).astype(np.float32) for _ in range(ranks)]


def results_of(comm):
    """The bits that this rank gets, and what it sent for each call."""
    results = []
    for count in COUNTS:
        before = comm.stats()
        bits = comm.allreduce(values_of(count, comm.size)[comm.rank], Q, step=7).tobytes()
        sent = comm.stats().since(before)
        results.append((bits, sent["payload_bytes_sent"], sent["messages_sent"]))
    return results


@pytest.mark.parametrize("options", [{}, {"nodes": [0, 0, 1, 1]}, {"uncompressed": "never"}])
def test_the_string_of_a_group_repeats_its_choices(options):
    def work(comm):
        before = comm.costs
        return before, results_of(comm), comm.costs

    measured = gqsgd.run_local(4, work, costs="measure", **options)
    assert {before for before, _, _ in measured} == {""}
    costs = {found for _, _, found in measured}
    assert len(costs) == 1 and "" not in costs
    for before, results, found in gqsgd.run_local(4, work, costs=costs.pop(), **options):
        assert before == found == measured[0][2]
        assert [bits for bits, *_ in results] == [bits for bits, *_ in measured[0][1]]
    again = gqsgd.run_local(4, work, costs=measured[0][2], **options)
    assert [results for _, results, _ in again] == [results for _, results, _ in measured]


def test_custom_transports_measure_in_their_first_call_also_as_a_request():
    def work(comm):
        request = comm.allreduce_start(np.full(100, comm.rank, np.float32), Q, step=1)
        while not request.test():
            pass
        return comm.costs, request.wait().tobytes()

    (one, two), _ = run_custom(2, work, costs="measure", timeout_ms=60_000)
    assert one == two and one[0].startswith("latency_ns=")


def test_costs_are_what_was_given():
    with gqsgd.Communicator.local(1)[0] as comm:
        assert comm.costs == ""
    with gqsgd.Communicator.local(1, costs="builtin")[0] as comm:
        builtin = comm.costs
    assert "latency_ns=20000;" in builtin and "rotated.dequantize=0.63 0.72 1100;" in builtin
    assert gqsgd.predict_time(Q, 8, 10**6, constants=builtin) == gqsgd.predict_time(
        Q, 8, 10**6, constants="# all built in"
    )
    third = "byte_ns=0.3333333333333333;cpus=3"
    with gqsgd.Communicator.local(1, costs=third)[0] as comm:
        assert "byte_ns=0.3333333333333333;" in comm.costs and "cpus=3;" in comm.costs


@pytest.mark.parametrize(
    ("costs", "sentence"),
    [
        ("byte_ns=-1;", "line 1 of the costs: byte_ns is not one number"),
        ("cpus=1;speed=2;", 'line 2 of the costs: "speed" is not a constant'),
    ],
)
def test_a_string_that_is_none_is_refused(costs, sentence):
    with pytest.raises(gqsgd.InvalidArgument, match=sentence):
        gqsgd.Communicator.local(1, costs=costs)


def test_the_environment_may_ask_for_it(monkeypatch):
    monkeypatch.setenv("GQSGD_COSTS", "measure")
    found = gqsgd.run_local(2, lambda comm: (results_of(comm), comm.costs))
    assert found[0][1] == found[1][1] != ""
    gqsgd.simulate(values_of(100, 2), Q)  # has no links, and needs none


def test_virtual_ranks_have_nothing_to_measure():
    with pytest.raises(gqsgd.Unsupported, match="virtual ones have none"):
        gqsgd.simulate(values_of(100, 2), Q, costs="measure")


def test_what_was_reserved_is_enough_to_measure():
    def workspace(comm):
        comm.reserve(Q, 50)
        before = comm.stats()["workspace_bytes"]
        comm.allreduce(np.ones(50, np.float32), Q)
        return before, comm.stats()["workspace_bytes"]

    for before, after in gqsgd.run_local(2, workspace, costs="measure"):
        assert before == after
