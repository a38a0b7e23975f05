"""Gradients of fully_shard (FSDP2) through the reduce-scatter in codes, on Gloo."""

import warnings

import gqsgd.torch
import pytest
import torch
import torch.distributed as dist
import torch_models as models
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard


class Filled(gqsgd.torch.ReduceScatter):
    """Memory comes with NaN in it, as it may: padding must not get into a block."""

    def allocate(self, size, *, dtype, device):
        return super().allocate(size, dtype=dtype, device=device).fill_(float("nan"))


def sharded(quantizer, reduce_dtype=None, factory=Filled):
    """A model whose layers do not divide by the ranks, wrapped layer by layer."""
    torch.manual_seed(0)
    net = torch.nn.Sequential(
        torch.nn.Linear(32, 61), torch.nn.ReLU(), torch.nn.Linear(61, 33), torch.nn.Linear(33, 4))
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    policy = MixedPrecisionPolicy(reduce_dtype=reduce_dtype)
    for layer in [net[0], net[2], net]:
        fully_shard(layer, mesh=mesh, mp_policy=policy)
    scatter = factory(quantizer, timeout_ms=60000) if quantizer is not None else None
    if scatter is not None:
        scatter.attach(net)
    return net, scatter


def train(net, step_count):
    """Losses, and the whole parameters at the end."""
    losses = models.train(net, range(step_count))
    return losses, [parameter.full_tensor() for parameter in net.parameters()]


def warnings_of(quantizer, layer):
    """What attaching says of a model with this layer."""
    net = torch.nn.Sequential(layer, torch.nn.Linear(16, 4))
    fully_shard(net, mesh=init_device_mesh("cpu", (dist.get_world_size(),)))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        gqsgd.torch.ReduceScatter(quantizer).attach(net)
    return [str(each.message) for each in caught if "zeros" in str(each.message)]


def test_an_embedding_that_would_get_noise_is_named(torch_groups):
    group = torch_groups(2)
    for found in group.run(warnings_of, "rotated-8", torch.nn.Embedding(8, 16)):
        assert len(found) == 1
        assert found[0].startswith("rotated-8 turns zeros into noise, and '0' is an embedding")
    for quantizer, layer in [("blocks-8", torch.nn.EmbeddingBag(8, 16)),
                             ("rotated-8", torch.nn.Linear(16, 16))]:
        assert group.run(warnings_of, quantizer, layer) == [[], []]


def against_plain(reduce_dtype):
    plain_losses, plain = train(sharded(None, reduce_dtype)[0], 5)
    net, scatter = sharded("none", reduce_dtype)
    _, uncompressed = train(net, 5)
    assert scatter.call_count == 15  # three wrapped modules
    scatter.close()
    if reduce_dtype is None:
        for a, b in zip(plain, uncompressed):
            torch.testing.assert_close(a, b)
    net, scatter = sharded("", reduce_dtype)
    losses, found = train(net, 5)
    scatter.close()
    for a, b in zip(plain, found):
        assert (a - b).norm() < 0.02 * a.norm()
    assert losses == pytest.approx(plain_losses, rel=0.02)
    return models.digest(found)


@pytest.mark.parametrize("size", [2, 4])
def test_unequal_shards_train_as_without_codes(torch_groups, size):
    assert len(set(torch_groups(size).run(against_plain, None))) == 1


@pytest.mark.parametrize("name", ["bfloat16", "float16"])
def test_other_types_of_gradients(torch_groups, name):
    assert len(set(torch_groups(2).run(against_plain, getattr(torch, name)))) == 1


def resumed():
    net, scatter = sharded("")
    train(net, 2)
    saved = scatter.state_dict()
    other, again = sharded("")
    other.load_state_dict(net.state_dict())
    again.load_state_dict(saved)
    bits = [models.digest(train(each, 2)[1]) for each in (net, other)]
    scatter.close(), again.close()
    assert bits[0] == bits[1]


def test_a_checkpoint_resumes_bit_for_bit(torch_groups):
    torch_groups(2).run(resumed)


def other_operations():
    net, scatter = sharded("")
    net.set_gradient_divide_factor(3.0)
    with pytest.raises(gqsgd.Unsupported, match="set_gradient_divide_factor"):
        train(net, 1)
    scatter.close()


def test_operations_without_codes_are_refused(torch_groups):
    torch_groups(2).run(other_operations)


def test_a_model_that_is_not_sharded_is_refused():
    with pytest.raises(gqsgd.InvalidArgument, match="fully_shard it"):
        gqsgd.torch.ReduceScatter().attach(torch.nn.Linear(2, 2))


def averaged_whole():
    """Parameters are averaged whole, and given back."""
    net, _ = sharded(None)
    for layer in [net[0], net[2], net]:
        layer.unshard()
        with torch.no_grad():
            for parameter in layer.parameters(recurse=False):
                gqsgd.torch.allreduce_(parameter, "none")
        layer.reshard()
    models.train(net, range(2))


def test_averaged_parameters_are_resharded(torch_groups):
    torch_groups(2).run(averaged_whole)
