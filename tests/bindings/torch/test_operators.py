"""allreduce as operators of torch.library: eager, compiled, differentiated."""

import gqsgd.torch
import pytest
import torch
import torch.distributed as dist
import torch_models as models


def values(seed=0):
    generator = torch.Generator().manual_seed(2 * seed + dist.get_rank())
    return torch.randn(40, 50, generator=generator)


def eager():
    """New tensors and in place: close to the mean, with the same bits on all ranks."""
    x = values()
    exact = x.clone()
    dist.all_reduce(exact)
    mean = gqsgd.torch.allreduce(x)
    total = gqsgd.torch.allreduce(x, gqsgd.Quantizer("none"), op="sum")
    torch.testing.assert_close(total, exact)
    assert (mean - exact / 2).norm() < 0.03 * (exact / 2).norm()
    turned = gqsgd.torch.allreduce(x.T, "none")
    torch.testing.assert_close(turned, exact.T / 2)
    y = x.clone()
    assert gqsgd.torch.allreduce_(y, "none", dist.group.WORLD) is y
    torch.testing.assert_close(y, exact / 2)
    again = gqsgd.torch.allreduce(x)
    assert not torch.equal(mean, again)  # other random numbers
    return models.digest([mean, total, turned, y, again])


def test_eager(torch_groups):
    first, second = torch_groups(2).run(eager)
    assert first == second


def compiled():
    """One graph, without a break; calls keep their random numbers and their order."""
    def work(x, y):
        a, b = gqsgd.torch.allreduce(x), gqsgd.torch.allreduce(x)
        gqsgd.torch.allreduce_(y, "rotated-8")
        return a - b, a + y, gqsgd.torch.allreduce(x + 1, op="sum")

    def run(function):
        gqsgd.torch.groups.shared(None).counter = 100
        y = values(1)
        return [*function(values(), y), y]

    expected = run(work)
    found = run(torch.compile(work, fullgraph=True, backend="aot_eager"))
    assert found[0].any()  # equal calls are not merged
    for a, b in zip(found, expected):
        assert torch.equal(a, b)
    return models.digest(found)


def test_compiled(torch_groups):
    first, second = torch_groups(2).run(compiled)
    assert first == second


def differentiated():
    x = values().requires_grad_()
    weight = torch.full_like(x, float(dist.get_rank() + 1))
    (gqsgd.torch.allreduce(x, "none") * weight).sum().backward()
    return x.grad.unique().tolist()


def test_the_gradient_is_reduced_as_well(torch_groups):
    assert torch_groups(2).run(differentiated) == [[1.5]] * 2


def checked():
    torch.library.opcheck(
        torch.ops.gqsgd.allreduce.default, (values(), "none", "", "mean"),
        test_utils=("test_schema", "test_faketensor", "test_aot_dispatch_static"),
    )


def test_the_operator_is_what_torch_library_expects(torch_groups):
    torch_groups(2).run(checked)


def refused():
    with pytest.raises(gqsgd.InvalidArgument, match="'max'; accepted are sum, mean"):
        gqsgd.torch.allreduce(values(), op="max")
    with pytest.raises(gqsgd.InvalidArgument, match="contiguous"):
        gqsgd.torch.allreduce_(values().T)
    leaf = values().requires_grad_()
    for x in (leaf, leaf.sin()):
        with pytest.raises(gqsgd.InvalidArgument, match="x requires a gradient.*no_grad"):
            gqsgd.torch.allreduce_(x, "none")
    with torch.no_grad():
        assert gqsgd.torch.allreduce_(leaf, "none") is leaf
    with pytest.raises(gqsgd.InvalidArgument, match="int64"):
        gqsgd.torch.allreduce(torch.ones(3, dtype=torch.int64))
    return gqsgd.torch.allreduce(torch.ones(3), "none").tolist()


def test_what_is_refused_leaves_the_group_usable(torch_groups):
    assert torch_groups(2).run(refused) == [[1, 1, 1]] * 2
