"""HookState(gather_floats=True): floats of several buckets in one call."""

import contextlib

import gqsgd.torch
import pytest
import torch
import torch.distributed as dist
import torch_models as models
from gqsgd.torch import calls

VIEWS = {"bucket_cap_mb": 0.01, "gradient_as_bucket_view": True}


def deep():
    """Four buckets, each with 64 values that go as floats."""
    torch.manual_seed(0)
    layers = [torch.nn.Linear(32, 64), *(torch.nn.Linear(64, 64) for _ in range(3))]
    return torch.nn.Sequential(*layers, torch.nn.Unflatten(1, (4, 16)), torch.nn.AvgPool1d(16),
                               torch.nn.Flatten())


@contextlib.contextmanager
def gathered_up_to(most_values):
    before, calls.GATHERED_VALUE_COUNT = calls.GATHERED_VALUE_COUNT, most_values
    try:
        yield
    finally:
        calls.GATHERED_VALUE_COUNT = before


def counted(model, state, steps):
    """Trains; the calls of each step."""
    comm, counts = state.connect(), []
    for step in steps:
        before = comm.stats()["calls"]
        models.train(model, [step])
        counts.append(comm.stats()["calls"] - before)
    return counts


def trained(gathers, make=models.perceptron, most_values=calls.GATHERED_VALUE_COUNT, ddp=VIEWS):
    """Calls of each of four steps, and a digest of the weights at the end."""
    with gathered_up_to(most_values):
        model, state = models.hooked(make(), ddp=ddp, gather_floats=gathers)
        counts = counted(model, state, range(4))
        rows = state.report().rows
        state.close()
    assert {row.name for row in rows} == {name for name, _ in model.module.named_parameters()}
    assert len({row.call for row in rows}) == counts[-1]
    return counts, models.digest(model.parameters())


def test_floats_of_all_buckets_are_one_call_and_bits_stay(torch_groups):
    group = torch_groups(2)
    (alone, weights), _ = group.run(trained, False)
    (gathered, same_weights), _ = group.run(trained, True)
    with_codes = 2  # of the perceptron's tensors two have enough values for codes
    assert alone[1:] == [alone[1]] * 3 and alone[1] > with_codes + 1
    assert gathered[1:] == [with_codes + 1] * 3  # buckets are laid out again after the first
    assert weights == same_weights


def test_buckets_that_are_copied_wait_for_their_floats(torch_groups):
    group, copies = torch_groups(2), {"bucket_cap_mb": 0.01}
    (_, weights), _ = group.run(trained, False, deep)
    (_, same_weights), _ = group.run(trained, True, deep, 1000, copies)
    assert weights == same_weights


def test_many_floats_do_not_wait_for_the_last_bucket(torch_groups):
    group = torch_groups(2)
    found = {limit: group.run(trained, True, deep, limit)[0] for limit in (63, 100, 1000)}
    with_codes = 4
    calls_of_floats = {limit: counts[-1] - with_codes for limit, (counts, _) in found.items()}
    assert calls_of_floats == {63: 4, 100: 2, 1000: 1}  # none waits, two at a time, all
    assert len({weights for _, weights in found.values()}) == 1


def resumed(most_values):
    """Calls of each step, and weights, of four steps in one go, and of two, a checkpoint and two in
    another state."""
    with gathered_up_to(most_values):
        found = []
        for cut in (4, 2):
            model, state = models.hooked(deep(), ddp=VIEWS, gather_floats=True)
            counts = counted(model, state, range(cut))
            if cut < 4:
                saved, weights = state.state_dict(), model.module.state_dict()
                state.close()
                model, state = models.hooked(deep(), ddp=VIEWS, gather_floats=True)
                model.module.load_state_dict(weights)
                state.load_state_dict(saved)
                counts += counted(model, state, range(cut, 4))
            found.append((counts, models.digest(model.parameters())))
            state.close()
    return found


@pytest.mark.parametrize("most_values", [100, 1000])
def test_a_resumed_run_gathers_the_same(torch_groups, most_values):
    (whole, resumed_run), _ = torch_groups(2).run(resumed, most_values)
    assert whole == resumed_run


class Mixed(torch.nn.Module):
    """Layers of two dtypes."""

    def __init__(self):
        super().__init__()
        self.narrow = torch.nn.Linear(64, 64, dtype=torch.bfloat16)
        self.wide = torch.nn.Linear(64, 64)

    def forward(self, x):
        return self.narrow(self.wide(x).bfloat16()).float().square().mean()


def mixed():
    """Gradients of a step with floats gathered, and without."""
    found = []
    for gathers in (True, False):
        torch.manual_seed(3)
        model, state = models.hooked(Mixed(), ddp=VIEWS, gather_floats=gathers)
        x = torch.randn(8, 64, generator=torch.Generator().manual_seed(dist.get_rank()))
        for _ in range(3):
            model.zero_grad()
            model(x).backward()
        found.append(models.digest(models.gradients(model)))
        state.close()
    return found


def test_floats_of_two_dtypes_are_two_calls(torch_groups):
    (gathered, alone), others = torch_groups(2).run(mixed)
    assert gathered == alone and others == [gathered, alone]


class Branches(torch.nn.Module):
    """Of which each rank uses its own, so that gradients of the others are not defined there."""

    def __init__(self):
        super().__init__()
        self.wide = torch.nn.ParameterList(
            torch.nn.Parameter(torch.ones(64, 64)) for _ in range(2))
        # Their buckets are the first of all.
        self.scales = torch.nn.ParameterList(torch.nn.Parameter(torch.ones(64)) for _ in range(2))

    def forward(self, x):
        rank = dist.get_rank()
        return (self.wide[rank] @ (self.scales[rank] * x)).sum()


def branched():
    model, state = models.hooked(
        Branches(), gather_floats=True,
        ddp={**VIEWS, "bucket_cap_mb": 0.0001, "find_unused_parameters": True})
    x = torch.full((64,), 2.0)
    for _ in range(4):
        model.zero_grad()
        model(x).backward()
        for scale in model.module.scales:  # 64 times 2 on one rank, nothing on the other
            torch.testing.assert_close(scale.grad, torch.full((64,), 64.0))
    assert state.step == 4
    state.close()


def test_ranks_that_use_other_parameters_agree(torch_groups):
    torch_groups(2).run(branched)


def failed():
    """A call of codes that fails leaves no bucket waiting for its floats."""
    model, state = models.hooked(
        models.perceptron(), "blocks-8,nonfinite=error", ddp=VIEWS, gather_floats=True)
    models.train(model, [0, 1])
    inputs, targets = models.batch(2)
    inputs[0, 0] = float("nan") if dist.get_rank() == 1 else inputs[0, 0]
    with pytest.raises(RuntimeError, match="Nonfinite: .*rank 1"):
        torch.nn.functional.mse_loss(model(inputs), targets).backward()
    state.close()


def test_failure_of_a_call_ends_the_buckets_that_wait(torch_groups):
    torch_groups(2).run(failed)
