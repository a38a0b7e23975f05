"""The hook of gqsgd.torch and its reduce-scatter on a GPU's streams, on the device of threads."""

import gqsgd
import numpy as np
import pytest
import threads_device as device

pytest.importorskip("torch", reason="torch may not be there for the CPU")

import gqsgd.torch  # noqa: E402
import torch  # noqa: E402
import torch_double as double  # noqa: E402
from gqsgd.torch import budget as budgets  # noqa: E402
from gqsgd.torch import fsdp, groups  # noqa: E402

SHAPES = [(64, 64), (64,), (40, 50)]


def gradient(rank, step=0):
    count = sum(int(np.prod(shape)) for shape in SHAPES)
    return np.random.default_rng(10 * step + rank).standard_normal(count).astype(np.float32)


def on_the_host(size, step):
    """What two calls with the default policy make of the gradients of one bucket."""
    ends = np.cumsum([int(np.prod(shape)) for shape in SHAPES])[:-1]

    def work(comm):
        parts = np.split(gradient(comm.rank, step), ends)
        calls = [([0, 2], gqsgd.Quantizer()), ([1], gqsgd.Quantizer("none"))]
        for index, (places, q) in enumerate(calls):
            means = comm.allreduce_many([parts[k] for k in places], q, step=step, index=index)
            for k, mean in zip(places, means):
                parts[k] = mean
        return np.concatenate(parts)

    return gqsgd.run_local(size, work)[0]


def test_the_hook_enqueues_and_the_future_orders(monkeypatch):
    """Calls follow what fills the bucket, though nothing waits; work that waits for the future
    follows them."""
    parameters = [torch.nn.Parameter(torch.zeros(shape)) for shape in SHAPES]

    def work(rank):
        state = gqsgd.torch.HookState(timeout_ms=20000)
        buffer, means = double.tensor(gradient(rank)), []
        stream = double.devices.cuda.current_stream(double.GPU)
        for step in range(4):
            known = step > 1  # before, some kind of call looks at the others' and waits for that
            stream.sleep(200 if known else 0)
            if not known:
                buffer.copy_(torch.from_numpy(gradient(rank, step)))
            future = gqsgd.torch.allreduce_hook(state, double.Bucket(parameters, buffer))
            if known:
                buffer.copy_(torch.from_numpy(gradient(rank, step)))  # the stream still sleeps
            assert future.wait() is buffer
            stream.synchronize()
            means.append(buffer.numpy().copy())
        assert state.step == 4
        assert isinstance(state.communicator, gqsgd.Communicator)
        state.close()
        return means

    cuda, ranks = double.use(monkeypatch, 2, work)
    for means in ranks:
        for step, mean in enumerate(means):
            np.testing.assert_array_equal(mean, on_the_host(2, step))
    assert len(cuda.kept) == 8  # dropping a bucket after an error does no harm
    assert device.comms_in_use() == 0


def test_processes_need_no_nccl(monkeypatch):
    """Ranks of one machine by transport="process", in a group that this process is alone in."""
    parameters = [torch.nn.Parameter(torch.zeros(shape)) for shape in SHAPES]

    def work(rank):
        state, means = gqsgd.torch.HookState(transport="process", timeout_ms=20000), []
        for step in range(2):
            buffer = double.tensor(gradient(rank, step))
            gqsgd.torch.allreduce_hook(state, double.Bucket(parameters, buffer)).wait()
            double.devices.cuda.current_stream(double.GPU).synchronize()
            means.append(buffer.numpy().copy())
        summary = state.summary()
        with pytest.raises(gqsgd.Unsupported, match="on a GPU"):
            state.summary(measure=True)
        state.close()
        return means, summary

    for means, summary in double.use(monkeypatch, 2, work)[1]:
        assert "of 2, transport processes" in summary and "schedule  auto: direct" in summary
        for step, mean in enumerate(means):
            np.testing.assert_array_equal(mean, on_the_host(2, step))


@pytest.mark.parametrize(("transport", "costs", "line"), [
    ("nccl", "builtin", "auto: with costs the fastest for each size"),
    ("nccl", "measure", "auto: direct"),
    ("process", "builtin", "auto: direct")])
def test_a_summary_shows_whether_costs_choose(monkeypatch, transport, costs, line):
    parameters = [torch.nn.Parameter(torch.zeros(shape)) for shape in SHAPES]

    def work(rank):
        state = gqsgd.torch.HookState(transport=transport, costs=costs, timeout_ms=20000)
        bucket = double.Bucket(parameters, double.tensor(gradient(rank)))
        gqsgd.torch.allreduce_hook(state, bucket).wait()
        double.devices.cuda.current_stream(double.GPU).synchronize()
        summary = state.summary()
        state.close()
        return summary

    for summary in double.use(monkeypatch, 2, work)[1]:
        assert f"schedule  {line}" in summary


def test_a_budget_follows_the_averages_on_the_device(monkeypatch):
    """Two buckets, one of gradients a thousand times as large: after a step it has more bits."""
    shapes, factors = [(40, 50), (64, 64)], [1e-3, 1.0]
    parameters = [torch.nn.Parameter(torch.zeros(shape)) for shape in shapes]

    def work(rank):
        state, means = gqsgd.torch.HookState(budget=4, timeout_ms=20000), []
        rng = np.random.default_rng(rank)
        buffers = [double.tensor(np.zeros(parameter.numel())) for parameter in parameters]
        for _ in range(2):
            for index, (buffer, factor) in enumerate(zip(buffers, factors)):
                buffer.copy_(torch.from_numpy(rng.standard_normal(len(buffer)) * factor))
                gqsgd.torch.allreduce_hook(
                    state, double.Bucket([parameters[index]], buffer, index, index == 1)).wait()
            double.devices.cuda.current_stream(double.GPU).synchronize()
            means.append([buffer.as_subclass(torch.Tensor).clone() for buffer in buffers])
        formats = [row.format for row in state.report().rows]
        shares = {number: share for number, share, _ in state.state_dict()["budget"]["shares"]}
        state.close()
        return means, formats, shares

    _, (first, second) = double.use(monkeypatch, 2, work)
    means, formats, shares = first
    counts = [budgets.norm_counts(budgets.block_norms(mean)) for mean in means[0]]
    assert shares == dict(enumerate(budgets.shares(counts, 4)))
    assert second[1:] == (formats, shares)
    small, large = (float(mean_bits_of(form)) for form in formats)
    assert small == 2.5 and large > 4


def mean_bits_of(form):
    """The mean of the bits in "adaptive-3" or "width=adaptive,mean_bits=4.5"."""
    return form.replace("=", "-").rsplit("-", 1)[1]


def test_a_borrowed_communicator_stays_the_callers(monkeypatch):
    parameters = [torch.nn.Parameter(torch.zeros(shape)) for shape in SHAPES]

    def work(rank):
        comm = groups.connect(None, "nccl", timeout_ms=20000)
        state = gqsgd.torch.HookState(communicator=comm)
        buffer = double.tensor(gradient(rank))
        gqsgd.torch.allreduce_hook(state, double.Bucket(parameters, buffer)).wait()
        state.close()
        comm.check()
        double.devices.cuda.current_stream(None).synchronize()
        comm.close()
        return buffer.numpy().copy()

    for mean in double.use(monkeypatch, 2, work)[1]:
        np.testing.assert_array_equal(mean, on_the_host(2, 0))


def test_a_model_on_two_devices_is_refused(monkeypatch):
    def work(rank):
        state = gqsgd.torch.HookState(timeout_ms=20000)
        parameter, buffer = torch.nn.Parameter(torch.zeros(8, 8)), double.tensor(np.ones(64))
        state.reduce(double.Bucket([parameter], buffer)).wait()
        with pytest.raises(gqsgd.Unsupported, match="are on cpu, this state is for cuda:0"):
            state.reduce(double.Bucket([parameter], torch.ones(64)))
        double.devices.cuda.current_stream(None).synchronize()
        state.close()

    double.use(monkeypatch, 2, work)


def test_fsdp_gives_its_slices_on_its_stream(monkeypatch):
    def work(rank):
        scatter = gqsgd.torch.ReduceScatter("none", timeout_ms=20000)
        x, out = double.tensor(gradient(rank)[:6000]), double.tensor(np.zeros(3000))
        scatter(out, x, "group", torch.distributed.ReduceOp.AVG)
        double.devices.cuda.current_stream(None).synchronize()
        scatter.close()
        return out.numpy().copy()

    exact = sum(gradient(rank)[:6000].astype(np.float64) for rank in range(2)) / 2
    found = np.concatenate(double.use(monkeypatch, 2, work)[1])
    np.testing.assert_allclose(found, exact, rtol=1e-5, atol=1e-6)


def test_shards_of_replicas_are_averaged_on_fsdps_stream(monkeypatch):
    monkeypatch.setattr(fsdp, "_group_of", lambda group: group)

    def work(rank):
        all_reduce = gqsgd.torch.AllReduce("blocks-8", "group", timeout_ms=20000)
        stream, shards = double.devices.cuda.new_stream(double.GPU), []
        for step in range(2):
            shards.append(double.tensor(gradient(rank, step)))
            with double.devices.cuda.on_stream(stream):
                all_reduce(shards[-1])
        stream.synchronize()
        all_reduce.close()
        return [shard.numpy().copy() for shard in shards], stream

    cuda, ranks = double.use(monkeypatch, 2, work)
    for step in range(2):
        expected = gqsgd.simulate([gradient(rank, step) for rank in range(2)], gqsgd.Quantizer(),
                                  step=step)
        for shards, _ in ranks:
            np.testing.assert_array_equal(shards[step], expected)
    # FSDP2 may free a shard before the stream has come to it.
    assert sorted(map(id, (stream for _, stream in cuda.kept))) == sorted(
        id(stream) for _, stream in ranks for _ in range(2))
    assert device.comms_in_use() == 0
