"""gqsgd.torch on this machine's GPUs: the hook, the operators and streams over NCCL."""

import os
import socket

import gqsgd
import numpy as np
import pytest


@pytest.fixture
def torch():
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("torch finds no CUDA device")
    return torch


@pytest.fixture
def group(torch):
    """A process group of NCCL with this process alone."""
    import gqsgd.torch

    torch.cuda.set_device(0)
    store = torch.distributed.HashStore()
    torch.distributed.init_process_group("nccl", store=store, rank=0, world_size=1)
    yield torch.distributed.group.WORLD
    torch.distributed.destroy_process_group()


def test_an_allreduce_of_one_rank_has_the_bits_of_the_host(torch, group):
    values = np.random.default_rng(1).standard_normal(100_000).astype(np.float32)
    comm, q = gqsgd.torch.connect(group, "nccl"), gqsgd.Quantizer("blocks-8", seed=2)
    with comm, torch.cuda.stream(torch.cuda.Stream()):
        x = torch.from_numpy(values).cuda()
        for step in range(3):
            mean = comm.allreduce(x, q, step=step)
            expected = gqsgd.simulate([values], q, step=step)
            np.testing.assert_array_equal(mean.cpu().numpy(), expected)


def test_the_operators_work_on_the_current_stream(torch, group):
    x = torch.randn(1000, device="cuda")
    before = x.clone()
    mean = gqsgd.torch.allreduce(x, "none")
    assert torch.equal(mean, before) and torch.equal(x, before)
    assert gqsgd.torch.allreduce_(x, "none", op="sum") is x and torch.equal(x, before)
    found = torch.compile(lambda x: gqsgd.torch.allreduce(2 * x, "none"), fullgraph=True,
                          backend="aot_eager")(x)
    assert torch.equal(found, 2 * before)


def test_the_hook_averages_in_codes_on_a_stream_of_its_own(torch, group):
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 8))
    model = torch.nn.parallel.DistributedDataParallel(net.cuda(), bucket_cap_mb=0.02)
    state = gqsgd.torch.HookState("blocks-8", model=model)
    model.register_comm_hook(state, gqsgd.torch.allreduce_hook)
    for _ in range(3):
        inputs = torch.randn(32, 64, device="cuda")
        with model.no_sync():
            model(inputs).square().mean().backward()
        exact = [parameter.grad.clone() for parameter in net.parameters()]
        model.zero_grad()
        model(inputs).square().mean().backward()
        for parameter, gradient in zip(net.parameters(), exact):
            error = (parameter.grad - gradient).norm() / gradient.norm()
            assert error < (0.03 if gradient.ndim > 1 else 1e-6)
        model.zero_grad()
    assert state.step == 3
    state.close()


def trained(torch, warm_up_count, replay_count):
    """The parameters of a small model after so many steps, and the state's step."""
    torch.manual_seed(0)
    inputs = torch.randn(32, 64, device="cuda")
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        net = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(),
                                  torch.nn.Linear(256, 8)).cuda()
        model = torch.nn.parallel.DistributedDataParallel(
            net, bucket_cap_mb=0.02, gradient_as_bucket_view=True)
        state = gqsgd.torch.HookState("paper-gl8", model=model)
        model.register_comm_hook(state, gqsgd.torch.allreduce_hook)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        def step():
            optimizer.zero_grad(set_to_none=False)
            model(inputs).square().mean().backward()
            optimizer.step()

        for _ in range(warm_up_count):
            step()
    torch.cuda.current_stream().wait_stream(side)
    if replay_count:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            step()
        for _ in range(replay_count):
            graph.replay()
        step()  # outside of the graph, with the step that follows
    values = torch.cat([parameter.detach().flatten() for parameter in net.parameters()]).cpu()
    count = state.step
    if replay_count:
        del graph
    state.close()
    return values, count


def test_replays_of_a_captured_training_step_have_the_bits_of_steps(torch, group):
    eager, eager_count = trained(torch, 15, 0)
    replayed, replayed_count = trained(torch, 11, 3)
    assert (eager_count, replayed_count) == (15, 15)
    assert torch.equal(eager, replayed)


def test_replays_of_a_captured_operator_take_the_next_steps(torch, group):
    values = np.random.default_rng(1).standard_normal(10_000).astype(np.float32)
    x, q = torch.from_numpy(values).cuda(), gqsgd.Quantizer("paper-gl8", seed=2)
    gqsgd.torch.allreduce(x, q)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        mean = gqsgd.torch.allreduce(x, q)
    for step in (1, 2):
        graph.replay()
        np.testing.assert_array_equal(mean.cpu().numpy(), gqsgd.simulate([values], q, step=step))
    del graph


def rank_of_two(rank, port, bits):
    """Trains on a GPU of its own; `bits` gets the sum of what the parameters' bits are."""
    import gqsgd.torch
    import torch

    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.cuda.set_device(rank)
    torch.distributed.init_process_group("nccl", rank=rank, world_size=2)
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 8))
    model = torch.nn.parallel.DistributedDataParallel(net.cuda())
    state = gqsgd.torch.HookState("blocks-8", model=model)
    model.register_comm_hook(state, gqsgd.torch.allreduce_hook)
    optimizer = torch.optim.Adam(model.parameters())
    torch.manual_seed(rank)
    for _ in range(20):
        optimizer.zero_grad()
        model(torch.randn(32, 64, device="cuda")).square().mean().backward()
        optimizer.step()
    flat = torch.cat([parameter.detach().flatten() for parameter in net.parameters()])
    bits[rank] = flat.view(torch.int32).long().sum().item()
    state.close()
    torch.distributed.destroy_process_group()


def test_two_ranks_stay_bit_identical(torch):
    if torch.cuda.device_count() < 2:
        pytest.skip("this machine has one GPU")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    context = torch.multiprocessing.get_context("spawn")
    bits = context.Array("q", 2)
    torch.multiprocessing.start_processes(rank_of_two, (port, bits), 2, start_method="spawn")
    assert bits[0] == bits[1] != 0
