"""Hybrid sharding (FSDP2 on a mesh of two replicas with two shards each, on Gloo): the allreduce of
the replicas in codes."""

import gqsgd.torch
import pytest
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as checkpoint
import torch_models as models
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

REPLICAS = [(0, 2), (1, 3)]  # ranks that have the same shards


def mesh_of():
    return init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))


def wrapped(mesh, reduce_dtype=None, bias=True):
    """A model whose layers do not divide by the shards, wrapped layer by layer."""
    torch.manual_seed(0)
    net = torch.nn.Sequential(
        torch.nn.Linear(32, 61, bias), torch.nn.ReLU(), torch.nn.Linear(61, 33, bias),
        torch.nn.Linear(33, 4, bias))
    policy = MixedPrecisionPolicy(reduce_dtype=reduce_dtype)
    for layer in [net[0], net[2], net]:
        fully_shard(layer, mesh=mesh, mp_policy=policy)
    return net


def stream_of(first, second):
    """Of a group: it draws by its ranks."""
    return ((2166136261 ^ first) * 16777619 % 2**32 ^ second) * 16777619 % 2**32


class Recorded(gqsgd.torch.AllReduce):
    """Keeps what comes in and what goes out."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, timeout_ms=60000, **options)
        self.calls = []

    def __call__(self, shard):
        before = shard.clone()
        super().__call__(shard)
        self.calls.append((before, shard.clone()))


def compressed(quantizer, reduce_dtype=None, **options):
    mesh = mesh_of()
    net = wrapped(mesh["shard"], reduce_dtype)
    return net, Recorded(quantizer, mesh["replicate"], **options).attach(net)


def train(net, step_count):
    """Losses, the gradients at the end, and the whole parameters."""
    losses = models.train(net, [0] * step_count)  # one batch, so that losses fall
    gradients = [parameter.grad.to_local().clone() for parameter in net.parameters()]
    gradients.append(torch.nn.utils.clip_grad_norm_(net.parameters(), 0.1).full_tensor())
    return losses, gradients, [parameter.full_tensor().detach() for parameter in net.parameters()]


def recorded(reduce_dtype):
    net, all_reduce = compressed("", reduce_dtype)
    train(net, 2)
    summary = all_reduce.summary()
    all_reduce.close()
    return all_reduce.calls, summary


@pytest.mark.parametrize("name", ["float32", "bfloat16", "float16"])
def test_shards_are_averaged_as_in_the_simulation(torch_groups, name):
    results = torch_groups(4).run(recorded, getattr(torch, name))
    quantizer = gqsgd.Quantizer()
    for replicas in REPLICAS:
        stream_id = stream_of(*replicas)
        for step, calls in enumerate(zip(*(results[rank][0] for rank in replicas), strict=True)):
            expected = gqsgd.simulate([before for before, _ in calls], quantizer, step=step,
                                      stream_id=stream_id)
            assert expected.dtype == getattr(torch, name)
            for _, after in calls:
                assert torch.equal(after, expected)
    summary = results[3][1]
    assert "<Recorded blocks-8, call 6>" in summary  # two steps of three wrapped modules
    assert "rank 1 of 2, transport processes" in summary
    assert "ratio 3." in summary


def against_torch(reduce_dtype):
    """torch's own hybrid sharding; the same by this library in float32; and in codes."""
    plain_losses, plain, plain_parameters = train(wrapped(mesh_of(), reduce_dtype), 5)
    net, all_reduce = compressed("none", reduce_dtype)
    _, exact, _ = train(net, 5)
    all_reduce.close()
    bound = 1e-5 if reduce_dtype is None else 0.03
    for a, b in zip(plain, exact, strict=True):
        assert (a - b).norm() <= bound * a.norm()
    net, all_reduce = compressed("", reduce_dtype)
    losses, _, parameters = train(net, 5)
    all_reduce.close()
    assert losses == pytest.approx(plain_losses, rel=0.02)
    assert losses[-1] < losses[0]
    for a, b in zip(plain_parameters, parameters, strict=True):
        assert (a - b).norm() < 0.02 * a.norm()
    return models.digest(parameters)


@pytest.mark.parametrize("name", [None, "bfloat16", "float16"])
def test_it_trains_as_hybrid_sharding_of_torch(torch_groups, name):
    found = torch_groups(4).run(against_torch, name and getattr(torch, name))
    assert len(set(found)) == 1  # replicas and shards have the same parameters


def divided(make, **options):
    """A step with a factor of the caller's: torch averages over the shards, which it equals, and
    adds up the replicas."""
    net, *rest = make(**options)
    for layer in [net[0], net[2], net]:
        layer.set_gradient_divide_factor(2.0)
    gradients = train(net, 1)[1]
    for each in rest:
        each.close()
    return gradients


def sums_against_torch():
    plain = divided(lambda: (wrapped(mesh_of()),))
    for a, b in zip(plain, divided(compressed, quantizer="none", op="sum"), strict=True):
        torch.testing.assert_close(a, b)


def test_sums_of_replicas_are_those_of_torch(torch_groups):
    torch_groups(4).run(sums_against_torch)


def both_compressed():
    """Both dimensions in codes, and accumulation without communication."""
    net, all_reduce = compressed("")
    scatter = gqsgd.torch.ReduceScatter("", timeout_ms=60000).attach(net)
    net.set_requires_gradient_sync(False)
    models.train(net, [0])
    net.set_requires_gradient_sync(True)
    _, _, parameters = train(net, 1)
    assert all_reduce.call_count == scatter.call_count == 3
    summary = scatter.summary()
    all_reduce.close(), scatter.close()
    return models.digest(parameters), summary


def test_both_dimensions_in_codes(torch_groups):
    results = torch_groups(4).run(both_compressed)
    assert len({bits for bits, _ in results}) == 1
    assert "<ReduceScatter blocks-8, call 3>" in results[0][1] and "ratio 3." in results[0][1]


def resumed(folder):
    net, all_reduce = compressed("")
    train(net, 1)
    checkpoint.save({"net": net.state_dict(), "gradients": all_reduce.state_dict()},
                    checkpoint_id=folder)
    other, again = compressed("")
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.zero_()
    loaded = {"net": other.state_dict(), "gradients": again.state_dict()}
    checkpoint.load(loaded, checkpoint_id=folder)
    again.load_state_dict(loaded["gradients"])
    with pytest.raises(gqsgd.InvalidArgument, match="the quantizer 'none', this Recorded has"):
        again.load_state_dict({**again.state_dict(), "quantizer": "none"})
    bits = [models.digest(train(each, 1)[2]) for each in (net, other)]
    all_reduce.close(), again.close()
    assert bits[0] == bits[1]


def test_a_distributed_checkpoint_resumes_bit_for_bit(torch_groups, tmp_path):
    torch_groups(4).run(resumed, str(tmp_path))


def different_quantizers():
    net, all_reduce = compressed(["blocks-8", "paper-gl8"][dist.get_rank() // 2])
    with pytest.raises(gqsgd.Mismatch) as caught:
        train(net, 1)
    all_reduce.close()
    return str(caught.value)


def test_what_differs_between_replicas_is_raised_by_backward(torch_groups):
    for sentence in torch_groups(4).run(different_quantizers):
        assert "rank 0" in sentence and "rank 1" in sentence


def wrong_meshes():
    mesh = mesh_of()
    by_torch, by_shards = wrapped(mesh), wrapped(mesh["shard"])
    for net, replicas in [(by_torch, mesh["replicate"]), (by_shards, mesh["shard"])]:
        with pytest.raises(gqsgd.InvalidArgument, match=r'in the mesh .* hint: .*mesh\["shard"\]'):
            gqsgd.torch.AllReduce("", replicas).attach(net)
        assert len(models.train(net, [0])) == 1  # nothing was attached
    with pytest.raises(gqsgd.InvalidArgument, match="has 2 dimensions, not 1"):
        gqsgd.torch.AllReduce("", mesh)
    with pytest.raises(gqsgd.InvalidArgument, match="op is 'max'; accepted are mean, sum"):
        gqsgd.torch.AllReduce("", mesh["replicate"], op="max")
    with pytest.raises(gqsgd.InvalidArgument, match="fully_shard it"):
        gqsgd.torch.AllReduce("", mesh["replicate"]).attach(torch.nn.Linear(2, 2))


def test_ranks_that_torch_reduces_over_are_refused(torch_groups):
    torch_groups(4).run(wrong_meshes)


def test_what_is_no_group_is_refused():
    with pytest.raises(TypeError, match='a str, not a ProcessGroup .* mesh\\["replicate"\\]'):
        gqsgd.torch.AllReduce("", "replicate")
