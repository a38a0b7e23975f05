"""gqsgd.torchft.ProcessGroup by itself: which tensors are compressed, what is exact, quorums and
failures. Replicas are threads that meet at a store, as in torchft's own tests."""

import logging
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import gqsgd
import pytest
import torch
import torch.distributed as dist

torchft_tests = pytest.importorskip(
    "torchft.process_group_test", reason="torchft's tests need the package parameterized"
)
from gqsgd.torchft import LargeFloats, ProcessGroup  # noqa: E402
from gqsgd.torchft.process_group import STREAM_ID, stream_of  # noqa: E402
from gqsgd.torchft.worker import Worker  # noqa: E402

TIMEOUT = timedelta(seconds=30)
Q = "rotated-4,seed=3"


class Replicas:
    """Threads with a group each, and a store for all of their quorums."""

    def __init__(self, size, **options):
        self.store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        self.groups = [ProcessGroup(Q, timeout=TIMEOUT, **options) for _ in range(size)]
        self.threads = ThreadPoolExecutor(size)
        self.quorums = 0

    def configure(self, *members, group_rank=0):
        self.quorums += 1
        address = f"127.0.0.1:{self.store.port}/torchft/{self.quorums}/{group_rank}"
        self.each(members, lambda group, rank: group.configure(
            address, "r", rank, len(members), self.quorums, group_rank, 2, list(members)))

    def each(self, members, call):
        started = [self.threads.submit(call, self.groups[k], rank)
                   for rank, k in enumerate(members)]
        return [each.result(120) for each in started]

    def reduce(self, members, tensors, op=dist.ReduceOp.SUM):
        """In place; the groups are those of the quorum, in its order."""

        def call(group, rank):
            assert group.allreduce([tensors[rank]], op).wait(TIMEOUT)
            return tensors[rank]

        return self.each(members, call)

    def close(self):
        for group in self.groups:
            group.shutdown()
        self.threads.shutdown()


@pytest.fixture
def replicas():
    made = []

    def make(size, **options):
        made.append(Replicas(size, **options))
        return made[-1]

    yield make
    for each in made:
        each.close()


def gradients(size, seed, count=2000):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(count, generator=generator) for _ in range(size)]


def expected(tensors, step, op="sum", stream_id=STREAM_ID):
    q = gqsgd.Quantizer(Q)
    return torch.as_tensor(gqsgd.simulate([t.clone() for t in tensors], q, op=op, step=step,
                                          stream_id=stream_id))


@pytest.mark.parametrize("op, name", [(dist.ReduceOp.SUM, "sum"), (dist.ReduceOp.AVG, "mean")])
def test_large_floats_have_the_bits_of_the_simulation(replicas, op, name):
    group, tensors = replicas(3), gradients(3, 1)
    group.configure(0, 1, 2)
    for step in range(2):
        bits = expected(tensors, step, name)
        for result in group.reduce((0, 1, 2), [t.clone() for t in tensors], op):
            assert torch.equal(result, bits)


def test_ranks_of_replicas_draw_other_numbers_than_each_other(replicas):
    """They have other shards of one model, whose errors would else be alike."""
    tensors = gradients(2, 1)
    found = []
    for group_rank in (0, 1):
        group = replicas(2)
        group.configure(0, 1, group_rank=group_rank)
        found.append(group.reduce((0, 1), [t.clone() for t in tensors])[0])
        assert torch.equal(found[-1], expected(tensors, 0, stream_id=stream_of(group_rank)))
    assert not torch.equal(*found)
    assert stream_of(None) == stream_of(0) == STREAM_ID


def test_a_job_that_is_started_again_draws_other_numbers(replicas):
    """From the counter of a checkpoint, which one of the replicas has."""
    before, tensors = replicas(2), gradients(2, 1)
    assert before.groups[0].state_dict() == {"counter": 0}
    before.configure(0, 1)
    for _ in range(3):
        before.reduce((0, 1), [t.clone() for t in tensors])
    saved = before.groups[0].state_dict()
    after = replicas(2)
    after.groups[1].load_state_dict(saved)
    assert after.groups[1].state_dict() == saved == {"counter": 3}
    after.configure(0, 1)
    for result in after.reduce((0, 1), [t.clone() for t in tensors]):
        assert torch.equal(result, expected(tensors, 3))
    after.groups[0].load_state_dict(saved)  # as a replica that heals: its quorum goes on
    assert after.groups[0].state_dict() == {"counter": 4}


def test_a_call_that_ends_with_its_quorum_is_counted(monkeypatch):
    [comm] = gqsgd.Communicator.local(1)
    worker = Worker(comm)
    monkeypatch.setattr(worker, "abort", lambda: worker.allreduce(
        gradients(1, 1), gqsgd.Quantizer(Q), "sum").wait())
    assert worker.end()["counter"] == 1


def test_any_shape_and_strides_are_reduced_in_place(replicas):
    group = replicas(2)
    group.configure(0, 1)
    flat = gradients(2, 2, 60 * 50)
    views = [t.clone().reshape(50, 60).t() for t in flat]
    assert not views[0].is_contiguous()
    bits = expected([view.contiguous() for view in views], 0)
    for result in group.reduce((0, 1), views):
        assert result.shape == (60, 50) and torch.equal(result, bits)


@pytest.mark.parametrize("tensor, op", [
    (torch.arange(5000), dist.ReduceOp.SUM),
    (torch.full((1023,), 0.1), dist.ReduceOp.SUM),
    (torch.tensor(0.1), dist.ReduceOp.SUM),
    (torch.full((5000,), 0.1), dist.ReduceOp.MAX),
])
def test_control_tensors_and_other_ops_are_exact(replicas, tensor, op):
    group = replicas(2)
    group.configure(0, 1)
    exact = tensor + tensor if op == dist.ReduceOp.SUM else tensor
    for result in group.reduce((0, 1), [tensor.clone(), tensor.clone()], op):
        assert torch.equal(result, exact)
    assert group.groups[0]._worker.comm.stats()["calls"] == 0


def test_a_list_of_tensors_is_one_call(replicas):
    group = replicas(2)
    group.configure(0, 1)
    lists = [gradients(2, seed) for seed in (5, 6)]
    ours = [[t.clone() for t in each] for each in lists]
    opts = dist.AllreduceCoalescedOptions()
    group.each((0, 1), lambda pg, rank: pg.allreduce_coalesced(ours[rank], opts).wait())
    assert group.groups[0]._worker.comm.stats()["calls"] == 1
    for k in range(2):
        assert torch.equal(ours[0][k], ours[1][k])
        exact = lists[0][k] + lists[1][k]
        assert (ours[0][k] - exact).norm() < 0.5 * exact.norm()


def test_what_a_policy_names_and_is_exact_is_in_the_log_once(replicas, caplog):
    group = replicas(2)
    group.configure(0, 1)
    with caplog.at_level(logging.WARNING, "gqsgd"):
        for _ in range(2):
            group.reduce((0, 1), gradients(2, 7), dist.ReduceOp.MAX)
    lines = [r.message for r in caplog.records if "is exact" in r.message]
    assert len(lines) == 2 and "neither SUM nor AVG" in lines[0]  # one for each replica


def test_what_is_no_quantizer_is_refused_at_once():
    with pytest.raises(TypeError, match="quantizer is a int, not a Quantizer or the name of one"):
        ProcessGroup(8)


def test_a_policy_decides_by_tensor(replicas):
    group = replicas(2, policy=lambda t: "none" if t.ndim == 1 else None)
    group.configure(0, 1)
    group.reduce((0, 1), [torch.ones(3), torch.ones(3)])
    assert group.groups[0]._worker.comm.stats()["calls"] == 1
    group.reduce((0, 1), [torch.ones(3, 1), torch.ones(3, 1)])
    assert group.groups[0]._worker.comm.stats()["calls"] == 1
    assert LargeFloats(Q)(torch.ones(1024)).spec == gqsgd.Quantizer(Q).spec


def test_quorums_that_shrink_and_grow_continue_the_counter(replicas):
    group, tensors = replicas(3), gradients(3, 8)
    group.configure(0, 1, 2)
    group.reduce((0, 1, 2), [t.clone() for t in tensors])
    group.configure(2, 0)
    for result in group.reduce((2, 0), [t.clone() for t in tensors[:2]]):
        assert torch.equal(result, expected(tensors[:2], 1))
    group.configure(1, 2, 0)  # replica 1 has counted one call; the others two
    for result in group.reduce((1, 2, 0), [t.clone() for t in tensors]):
        assert torch.equal(result, expected(tensors, 2))


def test_a_replica_that_leaves_is_an_error_of_the_work_until_the_next_quorum(replicas):
    group, tensors = replicas(3), gradients(3, 9)
    group.configure(0, 1, 2)
    group.groups[1].shutdown()
    before = [t.clone() for t in tensors]

    def call(pg, rank):
        work = pg.allreduce([tensors[rank]], dist.ReduceOp.SUM)
        assert work.wait(TIMEOUT) is False
        with pytest.raises(gqsgd.GqsgdError):
            work.get_future().wait()
        assert isinstance(pg.errored(), gqsgd.GqsgdError)

    group.each((0, 2), call)
    assert all(torch.equal(a, b) for a, b in zip(tensors, before, strict=True))
    group.configure(0, 2)
    assert group.groups[0].errored() is None
    for result in group.reduce((0, 2), [t.clone() for t in tensors[:2]]):
        assert torch.equal(result, expected(tensors[:2], 1))  # the call that failed was step 0


def test_abort_ends_a_call_that_waits(replicas):
    group = replicas(2)
    group.configure(0, 1)
    work = group.groups[0].allreduce([torch.ones(2000)], dist.ReduceOp.SUM)
    group.groups[0].abort()
    assert work.wait(TIMEOUT) is False
    assert isinstance(group.groups[0].errored(), gqsgd.Aborted)
    group.configure(0, 1)
    group.reduce((0, 1), gradients(2, 3))


def test_a_wait_has_a_timeout(replicas):
    group = replicas(2)
    group.configure(0, 1)
    work = group.groups[0].allreduce([torch.ones(2000)], dist.ReduceOp.SUM)
    with pytest.raises(RuntimeError, match="Timed out waiting 0.01 s"):
        work.wait(timedelta(seconds=0.01))


COLLECTIVES = sorted(torchft_tests.NormalGlooMultiPgTest.COLLECTIVES)


class Own(torchft_tests.MultiPgBaseTest):
    """torchft's tests of its process groups, for this one."""

    WORLD_SIZE = 3

    @classmethod
    def _create_pg(cls, backend):
        return ProcessGroup(timeout=timedelta(seconds=30))


@pytest.fixture(scope="module")
def torchfts_own():
    Own.setUpClass()
    yield Own()
    Own.tearDownClass()


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_torchfts_test_of_a_collective(torchfts_own, collective):
    torchfts_own._run_parallel(collective)


# Gloo takes its whole timeout to see that a peer has left an allreduce; that is its own.
@pytest.mark.parametrize("collective", ["allgather", "barrier", "broadcast_one"])
def test_torchfts_test_of_a_replica_that_leaves(torchfts_own, collective):
    torchfts_own._run_with_resiliency(collective)


def test_the_apis_that_torchft_tests():
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    for example in (torch.tensor([2]), torch.full((2048,), 2.0)):
        pg = ProcessGroup("none", timeout=TIMEOUT)
        pg.configure(f"localhost:{store.port}/{example.numel()}", "0", 0, 1)
        assert pg.size() == 1
        torchft_tests._test_pg(pg, example)
        pg.shutdown()
