"""Trainings with the hook: losses, embeddings under Adam, clipping, loss scaling."""

import statistics

import gqsgd.torch
import pytest
import torch
import torch.distributed as dist
import torch_models as models

SEEDS = range(5)
STEP_COUNT = 40


def final_losses(quantizer):
    """Mean over ranks and the last ten steps, for each seed."""
    losses = []
    for seed in SEEDS:
        model, state = models.hooked(models.perceptron(seed), quantizer, ddp={})
        last = torch.tensor(models.train(model, range(STEP_COUNT), seed)[-10:]).mean()
        dist.all_reduce(last)
        losses.append(last.item() / dist.get_world_size())
        state.close()
    return losses


def test_losses_are_those_of_float32(torch_groups):
    plain, default, rotated = (
        torch_groups(2).run(final_losses, quantizer)[0] for quantizer in ("none", "", "rotated-8")
    )
    spread = statistics.stdev(plain)
    for found in (default, rotated):
        assert found != plain
        assert abs(statistics.mean(found) - statistics.mean(plain)) < spread


def tables_after_adam(quantizer, policy):
    """An embedding of which each step uses some rows, and none its second half."""
    torch.manual_seed(0)
    net = torch.nn.Sequential(
        torch.nn.EmbeddingBag(400, 16), torch.nn.Linear(16, 128), torch.nn.ReLU(),
        torch.nn.Linear(128, 4),
    )
    before = net[0].weight.detach().clone()
    model, state = models.hooked(net, quantizer, policy=policy, ddp={})
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for step in range(10):
        generator = torch.Generator().manual_seed(10 * step + dist.get_rank())
        rows = torch.randint(0, 200, (16, 3), generator=generator)
        optimizer.zero_grad()
        model(rows).square().mean().backward()
        optimizer.step()
    state.close()
    moved = (net[0].weight.detach() != before).any(dim=1)
    return moved[:200].sum().item(), moved[200:].sum().item()


def rotate_all(name, parameter, module):
    assert (name, type(module)) != ("", type(None))
    return "rotated-8"


@pytest.mark.parametrize("quantizer", ["", "rotated-8"])
def test_unused_rows_of_an_embedding_stay_as_they_are(torch_groups, quantizer):
    for used, unused in torch_groups(2).run(tables_after_adam, quantizer, None):
        assert used > 150
        assert unused == 0


def test_a_rotation_would_have_moved_them(torch_groups):
    assert torch_groups(2).run(tables_after_adam, "rotated-8", rotate_all)[0][1] > 0


def clipped():
    """Norms of averaged gradients: the same on all ranks, and clipping works on them."""
    model, state = models.hooked(models.perceptron())
    inputs, targets = models.batch(0)
    (1000 * torch.nn.functional.mse_loss(model(inputs), targets)).backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
    after = torch.nn.utils.get_total_norm(models.gradients(model))
    state.close()
    assert norm > 10
    assert after == pytest.approx(1, rel=1e-4)
    return models.digest(models.gradients(model)), norm.item()


def test_clipping_sees_the_same_norm_on_all_ranks(torch_groups):
    assert len(set(torch_groups(2).run(clipped))) == 1


def scaled(scale):
    """Bits after some steps with loss scaling."""
    model, state = models.hooked(models.perceptron())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=scale, growth_interval=1000)
    for step in range(3):
        inputs, targets = models.batch(step)
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(inputs), targets)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    state.close()
    return models.digest(model.parameters())


def test_a_power_of_two_as_loss_scale_changes_no_bit(torch_groups):
    group = torch_groups(2)
    assert len({*group.run(scaled, 1.0), *group.run(scaled, 1024.0)}) == 1


def overflowed():
    """Rank 1 alone overflows: all ranks skip the step and halve the scale."""
    model, state = models.hooked(models.perceptron())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    before = models.digest(model.parameters())
    inputs, targets = models.batch(0)
    if dist.get_rank() == 1:
        targets = targets + float("inf")
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = torch.nn.functional.mse_loss(model(inputs), targets)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    state.close()
    return scaler.get_scale(), models.digest(model.parameters()) == before


def test_an_overflow_on_one_rank_skips_the_step_on_all(torch_groups):
    assert torch_groups(2).run(overflowed) == [(512.0, True)] * 2


def own_policy():
    """Specifications and quantizers by name; what a policy returns else is refused."""
    seen = {}

    def policy(name, parameter, module):
        seen[name] = type(module).__name__
        return gqsgd.Quantizer("paper-gl8") if name == "4.weight" else "none"

    model, state = models.hooked(models.perceptron(), policy=policy)
    models.train(model, [0])
    assert seen == {f"{k}.{part}": kind for k, kind in
                    [(0, "Linear"), (2, "Linear"), (3, "LayerNorm"), (4, "Linear")]
                    for part in ("weight", "bias")}
    state.close()
    with pytest.raises(gqsgd.InvalidArgument, match="returned a int for parameter '0.weight'"):
        gqsgd.torch.HookState(model=model, policy=lambda *_: 8)


def test_a_policy_of_ones_own(torch_groups):
    torch_groups(2).run(own_policy)


def refuses_nonfinite():
    """Biases, which go as floats, have no norm to refuse anything by; weights have."""
    model, state = models.hooked(models.perceptron(), "blocks-8,nonfinite=error")
    models.train(model, [0])
    inputs, _ = models.batch(1)
    if dist.get_rank() == 1:
        inputs[0, 0] = float("nan")
    with pytest.raises(RuntimeError, match="Nonfinite: .*rank 1"):
        model(inputs).square().mean().backward()
    state.close()


def test_a_quantizer_that_refuses_nonfinite_values(torch_groups):
    torch_groups(2).run(refuses_nonfinite)
