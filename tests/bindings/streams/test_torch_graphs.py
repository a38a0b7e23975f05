"""gqsgd.torch in CUDA graphs, on the device of threads: steps and replays draw one sequence of
random numbers."""

import gqsgd
import numpy as np
import pytest
import threads_device as device

pytest.importorskip("torch", reason="torch may not be there for the CPU")

import gqsgd.torch  # noqa: E402
import torch  # noqa: E402
import torch_double as double  # noqa: E402
from gqsgd.torch import fsdp, groups, steps  # noqa: E402

SHAPES = [(64, 64), (64,), (40, 50)]
CUTS = np.cumsum([int(np.prod(shape)) for shape in SHAPES])
Q = gqsgd.Quantizer("paper-gl8")


def gradient(rank, step=0):
    values = np.random.default_rng(10 * step + rank).standard_normal(CUTS[-1])
    return values.astype(np.float32)


def on_the_host(size, step, q=Q):
    """What the calls of two buckets make of gradients: the first has the first two parameters."""
    def work(comm):
        parts = np.split(gradient(comm.rank, step), CUTS[:-1])
        for index, (k, used) in enumerate([(0, q), (1, gqsgd.Quantizer("none")), (2, q)]):
            parts[k] = comm.allreduce_many([parts[k]], used, step=step, index=index)[0]
        return np.concatenate(parts)

    return gqsgd.run_local(size, work)[0]


class Model:
    """The backward passes of a model of two buckets."""

    def __init__(self, rank, **options):
        self.rank, self.parameters = rank, [torch.nn.Parameter(torch.zeros(s)) for s in SHAPES]
        self.state = gqsgd.torch.HookState(Q, timeout_ms=20000, **options)
        self.buffers = [double.tensor(np.zeros(n)) for n in (CUTS[1], CUTS[2] - CUTS[1])]
        self.stream = double.devices.cuda.current_stream(double.GPU)
        self.graph = device.Graph()

    def fill(self, step):
        for buffer, values in zip(self.buffers, np.split(gradient(self.rank, step), [CUTS[1]])):
            buffer.copy_(torch.from_numpy(values))

    def backward(self):
        futures = [
            gqsgd.torch.allreduce_hook(
                self.state, double.Bucket(self.parameters[first:end], buffer, k, k == 1))
            for k, (buffer, first, end) in enumerate(zip(self.buffers, (0, 2), (2, 3)))]
        for future in futures:
            future.wait()

    def run(self, step, make):
        """The means of the gradients of a step, by `backward` or a replay."""
        self.fill(step)
        make()
        self.stream.synchronize()
        return np.concatenate([buffer.numpy().copy() for buffer in self.buffers])

    def capture(self):
        with self.graph.capture(self.stream):
            self.backward()

    def replay(self):
        self.graph.replay(self.stream)

    def close(self):
        """The graph before the state."""
        self.graph.end()
        self.state.close()


@pytest.mark.parametrize("gathers", [False, True])
@pytest.mark.parametrize("transport", ["nccl", "threads"])
def test_steps_and_replays_draw_one_sequence(monkeypatch, transport, gathers):
    """Over NCCL, and where each call is one kernel of each rank, as among processes."""
    comms = gqsgd.Communicator.local(2, timeout_ms=20000) if transport == "threads" else [None] * 2

    def work(rank):
        model = Model(rank, gather_floats=gathers, communicator=comms[rank])
        means = [model.run(step, model.backward) for step in (0, 1)]
        model.capture()
        assert model.state.step == 2  # a capture is no step
        means += [model.run(step, model.replay) for step in (2, 3)]
        assert model.state.state_dict()["step"] == model.state.step == 4
        means += [model.run(4, model.backward), model.run(5, model.replay)]
        assert model.state.report().step == 5
        model.state.step = 9
        means += [model.run(9, model.replay), model.run(10, model.backward)]
        assert "step 11" in repr(model.state)
        model.close()
        assert model.state.step == 11
        return means

    for means in double.use(monkeypatch, 2, work)[1]:
        for step, mean in zip([0, 1, 2, 3, 4, 5, 9, 10], means, strict=True):
            np.testing.assert_array_equal(mean, on_the_host(2, step), err_msg=f"step {step}")


def test_a_step_that_was_set_before_the_capture_is_that_of_the_first_replay(monkeypatch):
    def work(rank):
        model = Model(rank)
        model.run(0, model.backward)
        saved = model.state.state_dict()
        model.state.load_state_dict({**saved, "step": 7, "layout": []})
        model.capture()
        mean = model.run(7, model.replay)
        model.close()
        return mean, model.run(8, model.backward), model.close()  # of a new communicator

    for mean, following, _ in double.use(monkeypatch, 2, work)[1]:
        np.testing.assert_array_equal(mean, on_the_host(2, 7))
        np.testing.assert_array_equal(following, on_the_host(2, 8))


def test_a_state_on_a_communicator_that_knows_the_calls_may_begin_with_a_capture(monkeypatch):
    def work(rank):
        comm = groups.connect(None, "nccl", timeout_ms=20000)
        first, model = Model(rank, communicator=comm), Model(rank, communicator=comm)
        first.run(0, first.backward)
        with model.graph.capture(model.stream), pytest.raises(gqsgd.Unsupported, match="no comm"):
            model.backward()
        model.state._device = double.GPU  # as with model=...
        model.state.step = 3
        model.state.connect()
        model.capture()
        means = [model.run(step, model.replay) for step in (3, 4)]
        for one in (first, model):
            one.close()
        comm.close()
        return means

    for means in double.use(monkeypatch, 2, work)[1]:
        for step, mean in zip((3, 4), means):
            np.testing.assert_array_equal(mean, on_the_host(2, step))


def test_no_host_waits_and_values_are_read_at_the_replay(monkeypatch):
    def work(rank):
        model = Model(rank)
        model.run(0, model.backward)
        model.capture()
        model.stream.sleep(200)
        model.replay()
        model.fill(1)  # in time: the stream still sleeps
        model.stream.synchronize()
        mean = np.concatenate([buffer.numpy().copy() for buffer in model.buffers])
        model.close()
        return mean

    for mean in double.use(monkeypatch, 2, work)[1]:
        np.testing.assert_array_equal(mean, on_the_host(2, 1))


def test_the_shares_of_a_budget_stay_as_they_are(monkeypatch):
    def work(rank):
        model = Model(rank)
        model.state = gqsgd.torch.HookState(budget=4, timeout_ms=20000)
        for step in range(3):
            model.run(step, model.backward)
        shares = model.state.state_dict()["budget"]["shares"]
        formats = [row.format for row in model.state.report().rows]
        model.capture()
        model.state.step = 16  # results of this step would give new shares outside of graphs
        model.run(16, model.replay)
        model.run(17, model.backward)
        assert model.state.state_dict()["budget"]["shares"] == shares
        assert [row.format for row in model.state.report().rows] == formats
        step = model.state.step
        model.close()
        return step

    assert double.use(monkeypatch, 2, work)[1] == [18, 18]


def test_a_capture_before_any_step_is_refused(monkeypatch):
    def work(rank):
        model = Model(rank)
        with model.graph.capture(model.stream):
            with pytest.raises(gqsgd.Unsupported, match="there is no communicator yet"):
                model.backward()
        mean = model.run(0, model.backward)
        model.close()
        return mean

    for mean in double.use(monkeypatch, 2, work)[1]:
        np.testing.assert_array_equal(mean, on_the_host(2, 0))


def expect_no_capture(monkeypatch, match, **options):
    """After a step outside of graphs the capture of one is refused."""
    def work(rank):
        model = Model(rank, **options)
        model.run(0, model.backward)
        with model.graph.capture(model.stream):
            with pytest.raises(gqsgd.Unsupported, match=match):
                model.backward()
            # The branch of the first bucket comes back.
            model.stream.wait_stream(model.state._lane.stream)
        model.close()

    double.use(monkeypatch, 2, work)


def test_more_calls_than_keys_are_refused(monkeypatch):
    monkeypatch.setattr(steps, "KEY_COUNT", 2)
    expect_no_capture(monkeypatch, "more than 2 calls")


def test_hosts_that_agree_in_each_call_are_named(monkeypatch):
    """Ranks of one machine without NCCL that share a device."""
    expect_no_capture(monkeypatch, "hosts of this group synchronize", transport="process")


def reduced(monkeypatch, make, connect=None):
    """Results and counts of a collective of FSDP2: two calls, two replays, a call; and after its
    count was set a replay."""
    monkeypatch.setattr(fsdp, "_group_of", lambda group: group)

    def work(rank):
        collective, call, result = make()
        if connect is not None:
            collective._communicators["group", double.GPU] = connect(rank)
        x, stream = double.tensor(np.zeros(6000)), double.devices.cuda.current_stream(double.GPU)
        out, graph, results, counts = double.tensor(np.zeros(3000)), device.Graph(), [], []

        def run(step, make):
            x.copy_(torch.from_numpy(gradient(rank, step)[:6000]))
            make()
            stream.synchronize()
            results.append(result(x, out).numpy().copy())
            counts.append(collective.state_dict()["call_count"])

        for step in (0, 1):
            run(step, lambda: call(collective, x, out))
        with graph.capture(stream):
            call(collective, x, out)
        for step in (2, 3):
            run(step, lambda: graph.replay(stream))
        run(4, lambda: call(collective, x, out))
        collective.load_state_dict({**collective.state_dict(), "call_count": 20})
        run(20, lambda: graph.replay(stream))
        graph.end()
        collective.close()
        assert collective.call_count == 21
        return results, counts

    ranks = double.use(monkeypatch, 2, work)[1]
    assert all(counts == [1, 2, 3, 4, 5, 21] for _, counts in ranks)
    return [results for results, _ in ranks]


def expected(step):
    return gqsgd.simulate([gradient(rank, step)[:6000] for rank in range(2)], Q, step=step)


@pytest.mark.parametrize("transport", ["nccl", "threads"])
def test_fsdps_all_reduce_counts_its_replays(monkeypatch, transport):
    comms = gqsgd.Communicator.local(2, timeout_ms=20000)
    found = reduced(
        monkeypatch,
        lambda: (gqsgd.torch.AllReduce(Q, "group", timeout_ms=20000),
                 lambda all_reduce, x, _: all_reduce(x), lambda x, _: x),
        comms.__getitem__ if transport == "threads" else None)
    for results in found:
        for step, result in zip([0, 1, 2, 3, 4, 20], results, strict=True):
            np.testing.assert_array_equal(result, expected(step), err_msg=f"call {step}")


def test_fsdps_reduce_scatter_counts_its_replays(monkeypatch):
    found = reduced(
        monkeypatch,
        lambda: (gqsgd.torch.ReduceScatter(Q, timeout_ms=20000),
                 lambda scatter, x, out: scatter(out, x, "group", torch.distributed.ReduceOp.AVG),
                 lambda _, out: out))

    def on_the_host_slices(step):
        comm_work = lambda comm: comm.reduce_scatter(  # noqa: E731
            gradient(comm.rank, step)[:6000], Q, step=step)
        return gqsgd.run_local(2, comm_work)

    for k, step in enumerate([0, 1, 2, 3, 4, 20]):
        for results, part in zip(found, on_the_host_slices(step)):
            np.testing.assert_array_equal(results[k], part, err_msg=f"call {step}")


def test_operators_take_the_communicators_counter(monkeypatch):
    def work(rank):
        x, graph = double.tensor(gradient(rank)), device.Graph()
        stream, means = double.devices.cuda.current_stream(None), []

        def keep(step):
            stream.synchronize()
            means.append(x.numpy().copy())
            x.copy_(torch.from_numpy(gradient(rank, step)))

        gqsgd.torch.allreduce_(x, Q)
        keep(1)
        with graph.capture(stream):
            gqsgd.torch.allreduce_(x, Q)
        for step in (2, 3):
            graph.replay(stream)
            keep(step)
        gqsgd.torch.allreduce_(x, Q)
        keep(4)
        comm = groups.shared(None, double.GPU)
        assert comm.counter == 4
        graph.end()
        comm.close()
        return means

    for means in double.use(monkeypatch, 2, work)[1]:
        for step, mean in enumerate(means):
            values = [gradient(rank, step) for rank in range(2)]
            np.testing.assert_array_equal(mean, gqsgd.simulate(values, Q, step=step))
