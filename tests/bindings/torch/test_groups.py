"""Communicators of process groups: subgroups, groups that are gone, and what is refused."""

import gc
import os
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import gqsgd.torch
import pytest
import torch
import torch.distributed as dist
import torch_group
import torch_models as models
from gqsgd.torch import devices, groups, liveness
from torch.nn.parallel import DistributedDataParallel

Q = gqsgd.Quantizer()


def destroyed_first(transport):
    """The group goes before the state: its communicator, which needs it no more, works on."""
    model, state = models.hooked(models.perceptron(), transport=transport)
    models.train(model, [0])
    dist.destroy_process_group()
    comm = state.communicator
    assert comm.allreduce(torch.ones(3), gqsgd.Quantizer("none")).tolist() == [1, 1, 1]
    state.close()
    torch_group.rendezvous(f"after {transport}")
    model, state = models.hooked(models.perceptron(), transport=transport)
    models.train(model, [0])
    state.close()


@pytest.mark.parametrize("transport", ["process", "network", "group"])
def test_a_process_group_may_be_destroyed_first(torch_groups, transport):
    torch_groups(2).run(destroyed_first, transport)


def subgroup():
    """Two halves, each with a communicator of its own; ranks count anew."""
    halves = [dist.new_group([0, 2]), dist.new_group([1, 3])]
    rank = dist.get_rank()
    mine = halves[rank % 2]
    results = []
    for transport in ("process", "network", "group"):
        with gqsgd.torch.connect(mine, transport, timeout_ms=60000) as comm:
            assert (comm.rank, comm.size) == (rank // 2, 2)
            results.append(comm.allreduce(torch.full((5,), float(rank)), gqsgd.Quantizer("none")))
    with pytest.raises(gqsgd.InvalidArgument, match=f"rank {rank} of the program is not in"):
        gqsgd.torch.connect(halves[1 - rank % 2])
    return [result.tolist() for result in results]


def test_subgroups(torch_groups):
    even, odd = [[1.0] * 5] * 3, [[2.0] * 5] * 3
    assert torch_groups(4).run(subgroup) == [even, odd, even, odd]


def models_of_subgroups(freezes):
    """Each half trains a model of its own; the state is told nothing of the group."""
    halves = [dist.new_group([0, 2]), dist.new_group([1, 3])]
    rank = dist.get_rank()
    layer = torch.nn.Linear(3, 1, bias=False)
    model = DistributedDataParallel(layer, process_group=halves[rank % 2])
    state = gqsgd.torch.HookState("none", timeout_ms=60000)
    model.register_comm_hook(state, gqsgd.torch.allreduce_hook)
    if freezes:
        gc.freeze()
    model(torch.full((1, 3), float(rank))).sum().backward()
    assert (gc.get_freeze_count() > 0) == freezes
    gc.unfreeze()
    assert state.communicator.size == 2
    state.close()
    early = gqsgd.torch.HookState("none", timeout_ms=60000)
    early.connect()
    model = DistributedDataParallel(torch.nn.Linear(3, 1), process_group=halves[rank % 2])
    model.register_comm_hook(early, gqsgd.torch.allreduce_hook)
    with pytest.raises(gqsgd.InvalidArgument, match="hint: connect.. after register_comm_hook"):
        model(torch.ones(1, 3)).sum().backward()
    early.close()
    other = gqsgd.torch.HookState("none", process_group=dist.group.WORLD)
    model = DistributedDataParallel(torch.nn.Linear(3, 1), process_group=halves[rank % 2])
    model.register_comm_hook(other, gqsgd.torch.allreduce_hook)
    with pytest.raises(gqsgd.InvalidArgument, match=r"the ranks \[0, 1, 2, 3\], and the model's"):
        model(torch.ones(1, 3)).sum().backward()
    other.close()
    return layer.weight.grad.flatten().tolist()


@pytest.mark.parametrize("freezes", [False, True])
def test_a_state_averages_in_the_group_of_its_model(torch_groups, freezes):
    """gc.freeze() hides objects from those that look for them."""
    assert torch_groups(4).run(models_of_subgroups, freezes) == [[1.0] * 3, [2.0] * 3] * 2


def reduced_twice(spec, step_count):
    """The mean square of z over this rank's shard, z being the mean error over many steps beside
    its standard error: of a reduce-scatter in one half and then an allreduce across, as hybrid
    sharding has them."""
    rank, value_count = dist.get_rank(), 512
    shards = [dist.new_group([0, 1]), dist.new_group([2, 3])][rank // 2]
    replicas = [dist.new_group([0, 2]), dist.new_group([1, 3])][rank % 2]
    q, generator = gqsgd.Quantizer(spec), torch.Generator().manual_seed(rank)
    x = 1 + torch.randn(2 * value_count, generator=generator)
    exact = x.clone()
    dist.all_reduce(exact)
    exact = exact.view(2, value_count)[rank % 2] / 4
    with gqsgd.torch.connect(shards) as scatter, gqsgd.torch.connect(replicas) as across:
        errors = torch.stack([
            across.allreduce(scatter.reduce_scatter(x, q, step=step), q, step=step) - exact
            for step in range(step_count)])
    means = errors.mean(0) / (errors.std(0) / step_count**0.5)
    return means.square().mean().item()


@pytest.mark.parametrize("spec", ["blocks-8", "rice-4", "adaptive-4"])
def test_a_result_of_one_group_is_rounded_anew_in_another(torch_groups, spec):
    """Mean squares of 512 values of z are 1 +- 0.07 if errors are independent and without bias;
    with one stream for all groups rank 0's are above 2."""
    found = torch_groups(4).run(reduced_twice, spec, 300)
    assert all(abs(square - 1) < 0.4 for square in found), found


def groups_of_two_threads():
    """Each rank begins with another group, on a thread for each."""
    pair = [dist.new_group([0, 1], timeout=timedelta(seconds=20)) for _ in range(2)]
    first = dist.get_rank()
    with ThreadPoolExecutor(2) as threads:
        begun = threads.submit(groups.shared, pair[first])
        time.sleep(0.5)  # it waits for the other rank now
        found = threads.submit(groups.shared, pair[1 - first]).result(), begun.result()
    return [comm.size for comm in found]


def test_threads_may_use_two_groups_first_in_different_orders(torch_groups):
    assert torch_groups(2).run(groups_of_two_threads) == [[2, 2]] * 2


def limits():
    """Of communicators of groups with timeouts of their own."""
    short = dist.new_group([0, 1], timeout=timedelta(seconds=77))
    found = []
    for transport in ("process", "network", "group"):
        with gqsgd.torch.connect(short, transport) as comm:
            found.append(comm.timeout_ms)
        with gqsgd.torch.connect(short, transport, timeout_ms=5000) as comm:
            found.append(comm.timeout_ms)
    os.environ["GQSGD_TIMEOUT_MS"] = "123000"
    try:
        with gqsgd.torch.connect(short) as comm:
            found.append(comm.timeout_ms)
    finally:
        del os.environ["GQSGD_TIMEOUT_MS"]
    return found


def test_the_time_limit_is_that_of_the_group(torch_groups):
    assert torch_groups(2).run(limits) == [[77000, 5000] * 3 + [123000]] * 2


def different_transports():
    wish = ["process", "group"][dist.get_rank()]
    sentence = "transport differs: rank 0 has 'process', rank 1 has 'group'"
    with pytest.raises(gqsgd.Mismatch, match=sentence):
        gqsgd.torch.connect(None, wish)


def test_transports_that_differ_are_reported_on_all_ranks(torch_groups):
    torch_groups(2).run(different_transports)


def unlike_settings(settings):
    """Rank 1 has other settings; afterwards the group is as before."""
    own = [{}, settings][dist.get_rank()]
    state = gqsgd.torch.HookState(timeout_ms=60000, **own)
    with pytest.raises(gqsgd.Mismatch) as caught:
        state.connect()
    state.close()
    with gqsgd.torch.connect(None, timeout_ms=60000) as comm:
        assert comm.allreduce(torch.ones(3), gqsgd.Quantizer("none")).tolist() == [1, 1, 1]
    return str(caught.value)


@pytest.mark.parametrize(("settings", "sentence"), [
    ({"budget": 4.2}, "budget differs: rank 0 has None, rank 1 has 4.2"),
    ({"gather_floats": True}, "gather_floats differs: rank 0 has False, rank 1 has True"),
    ({"schedule": "tree"}, "schedule differs: rank 0 has 'auto', rank 1 has 'tree'"),
    ({"quantizer": "blocks-8,seed=1"},
     "quantizer differs: rank 0 has 'blocks-8', rank 1 has 'blocks-8,seed=1'"),
])
def test_settings_that_differ_are_reported_on_all_ranks(torch_groups, settings, sentence):
    for found in torch_groups(2).run(unlike_settings, settings):
        assert sentence in found


def test_settings_are_compared_with_those_of_ranks_that_have_some():
    settings = {"budget": 4, "host": ["a"]}
    groups._require_equal([settings, {"host": ["b"]}, {**settings, "budget": 4.0}])
    with pytest.raises(gqsgd.Mismatch, match="budget differs: rank 0 has 4, rank 2 has 4.2"):
        groups._require_equal([settings, {"host": ["b"]}, {**settings, "budget": 4.2}])


def a_late_rank():
    """Gloo waits without being asked: the library's own deadline ends the call."""
    comm = gqsgd.torch.connect(None, "group", timeout_ms=300)
    if dist.get_rank() == 0:
        with pytest.raises(gqsgd.Timeout, match="rank 1"):
            comm.allreduce(torch.ones(5), Q)
    dist.barrier()
    comm.close()


def test_a_rank_that_does_not_come_is_a_timeout(torch_groups):
    torch_groups(2).run(a_late_rank)


def one_rank_dies():
    if dist.get_rank() == 1:
        comm = gqsgd.torch.connect(None, "process", timeout_ms=60000)
        os._exit(7)
    comm = gqsgd.torch.connect(None, "process", timeout_ms=60000)
    with pytest.raises(gqsgd.PeerLost, match="rank 1"):
        comm.allreduce(torch.ones(5), Q)
    comm.close()
    return "named"


def test_a_rank_that_dies_is_named():
    group = torch_group.TorchGroup(2)
    with pytest.raises(AssertionError, match="rank 1:\nthe process has died") as caught:
        group.run(one_rank_dies)
    assert "rank 0" not in str(caught.value)


def looked_at():
    """Looks that find all ranks leave nothing behind that the group could stumble over."""
    watch = liveness.Liveness(dist.group.WORLD, dist.get_rank(), 2)
    for _ in range(100):
        watch.look()
    total = torch.ones(3)
    dist.all_reduce(total)
    dist.barrier()
    watch.look()
    return total.tolist(), watch.diagnosis


def test_a_group_may_be_asked_for_ranks_that_are_gone(torch_groups):
    for total, diagnosis in torch_groups(2).run(looked_at):
        assert total == [2.0] * 3
        assert "its connection stands" in diagnosis


def test_a_group_without_gloo_cannot_be_asked():
    """Here something that has no backend for host memory at all."""
    watch = liveness.Liveness(object(), 0, 2)
    watch.look()
    assert "cannot be told" in watch.diagnosis


def said(transport, host, device="cpu"):
    return {"transport": transport, "host": host, "device": device}


def test_auto_takes_shared_memory_on_one_host_ucx_between_hosts_and_nccl_for_gpus():
    here, there = ["a", "boot", 0, 1], ["b", "boot", 0, 1]
    assert groups._agreed([said("auto", here), said("auto", here)]) == "process"
    assert groups._agreed([said("auto", here), said("auto", there)]) == "network"
    assert groups._agreed([said("auto", here, "cuda"), said("auto", there, "cuda")]) == "nccl"
    assert groups._agreed([said("process", here), said("process", there)]) == "process"
    assert groups._agreed([said("process", here, "cuda")] * 2) == "process"


@pytest.mark.parametrize("transport, device", [("nccl", "cpu"), ("network", "cuda"),
                                               ("group", "cuda")])
def test_a_transport_for_other_memory_is_refused(transport, device):
    with pytest.raises(gqsgd.InvalidArgument, match=f"{transport}.* tensors are on {device}"):
        groups._agreed([said(transport, ["a", "boot", 0, 1], device)] * 2)


def test_other_devices_are_refused_by_name():
    with pytest.raises(gqsgd.Unsupported, match="x is on meta; accepted are cpu and cuda"):
        devices.require_reachable(torch.ones(3, device="meta"), "x")
    with pytest.raises(gqsgd.Unsupported, match="device is meta; accepted are cpu and cuda"):
        gqsgd.torch.connect(None, device="meta")
    with pytest.raises(gqsgd.Unsupported, match="sparse"):
        devices.require_reachable(torch.ones(3).to_sparse(), "x")


def test_the_package_does_not_import_torch():
    import subprocess
    import sys

    program = "import gqsgd, sys; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
