"""The DDP hook: types and memory formats of gradients."""

import pytest
import torch
import torch.distributed as dist
import torch_models as models


def dtype_step(dtype):
    net = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Linear(64, 4)).to(dtype)
    model, state = models.hooked(net)
    inputs = torch.full((4, 64), float(dist.get_rank() + 1), dtype=dtype)
    model(inputs).float().sum().backward()
    found = models.gradients(model)
    state.close()
    # d/dw of the sum over 4 rows of (w x + b): 4 x for the last layer's bias 4.
    last_bias = found[-1].float()
    assert torch.equal(last_bias, torch.full((4,), 4.0))
    return models.digest(found), [str(gradient.dtype) for gradient in found]


@pytest.mark.parametrize("name", ["bfloat16", "float16", "float64"])
def test_other_types_of_gradients(torch_groups, name):
    first, second = torch_groups(2).run(dtype_step, getattr(torch, name))
    assert first == second
    assert set(first[1]) == {f"torch.{name}"}


def complex_error(quantizer):
    """||G - mean||^2 / ||mean||^2 of each gradient, and what all ranks must have alike."""
    model, state = models.hooked(torch.nn.Linear(64, 64, dtype=torch.complex64), quantizer)
    torch.manual_seed(dist.get_rank())
    inputs = torch.randn(4, 64, dtype=torch.complex64)
    own = models.local_gradients(model, lambda m: m(inputs).abs().square().sum())
    model(inputs).abs().square().sum().backward()
    errors = []
    for found, exact in zip(models.gradients(model), own):
        dist.all_reduce(exact)
        exact /= dist.get_world_size()
        errors.append(((found - exact).norm() / exact.norm()).item() ** 2)
    state.close()
    return errors, models.digest([torch.view_as_real(each) for each in models.gradients(model)])


@pytest.mark.parametrize(("quantizer", "most"), [("none", 1e-12), ("blocks-8", 1e-3)])
def test_complex_gradients_are_pairs_of_values(torch_groups, quantizer, most):
    (errors, digest), (_, other) = torch_groups(2).run(complex_error, quantizer)
    assert max(errors) < most and digest == other


def mixed_types():
    """Buckets of DDP hold one type each."""
    net = torch.nn.ModuleList([torch.nn.Linear(64, 64), torch.nn.Linear(64, 64).bfloat16()])
    model, state = models.hooked(net, ddp={})

    class Both(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.net = net

        def forward(self, x):
            return self.net[1](self.net[0](x).bfloat16()).float()

    state.close()
    model, state = models.hooked(Both(), ddp={})
    model(torch.full((4, 64), float(dist.get_rank() + 1))).square().sum().backward()
    state.close()
    return models.digest(models.gradients(model))


def test_types_may_be_mixed(torch_groups):
    assert len(set(torch_groups(2).run(mixed_types))) == 1


def other_memory_formats():
    """A convolution's gradient lies in the bucket in the order of its own strides."""
    torch.manual_seed(0)
    net = torch.nn.Conv2d(16, 16, 3).to(memory_format=torch.channels_last)
    model, state = models.hooked(net)
    images = torch.randn(2, 16, 8, 8, generator=torch.Generator().manual_seed(dist.get_rank()))
    own = models.local_gradients(model, lambda m: m(images).square().sum())
    model(images).square().sum().backward()
    dist.all_reduce(own[0])
    state.close()
    error = (net.weight.grad - own[0] / dist.get_world_size()).norm() / net.weight.grad.norm()
    assert error < 0.03


def test_channels_last(torch_groups):
    torch_groups(2).run(other_memory_formats)
