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
    by_torch_name = gqsgd.torch.allreduce(x, "none", op=dist.ReduceOp.SUM)
    assert torch.equal(by_torch_name, total)
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


def lists():
    """As one call: close to the mean, with the same bits on all ranks; another call rounds anew."""
    x, y = values(), values(1)[0]
    exact = [tensor.clone() for tensor in (x, y)]
    for tensor in exact:
        dist.all_reduce(tensor)
    sums = gqsgd.torch.allreduce_many([x, y], "none", op=dist.ReduceOp.SUM)
    for total, expected in zip(sums, exact, strict=True):
        torch.testing.assert_close(total, expected)
    first, second = (gqsgd.torch.allreduce_many([x, y], "blocks-8") for _ in range(2))
    assert [mean.shape for mean in first] == [x.shape, y.shape]
    assert (first[0] - exact[0] / 2).norm() < 0.03 * (exact[0] / 2).norm()
    assert not torch.equal(first[0], second[0])
    compiled = torch.compile(
        lambda a, b: gqsgd.torch.allreduce_many([a, b.t()], "none"), fullgraph=True)
    turned = compiled(x, x)
    torch.testing.assert_close(turned[1], exact[0].t() / 2)
    assert gqsgd.torch.allreduce_many([]) == []
    one_by_one = gqsgd.torch.allreduce_many(iter([x, y]), "none", op="sum")
    assert all(map(torch.equal, one_by_one, sums)) and len(one_by_one) == 2
    with pytest.raises(gqsgd.InvalidArgument, match="requires a gradient.*no_grad"):
        gqsgd.torch.allreduce_many([x.clone().requires_grad_()])
    return models.digest([*sums, *first, *second, *turned])


def test_lists(torch_groups):
    first, second = torch_groups(2).run(lists)
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


def unused_on_one_rank():
    """Of a compiled function: the results of the call that rank 1 uses, which rank 0's of the same
    shape must not be mistaken for."""
    def work(x):
        unused, many = gqsgd.torch.allreduce(x, "none"), gqsgd.torch.allreduce_many([x], "none")[0]
        gqsgd.torch.allreduce_(x + 1, "none")
        used = gqsgd.torch.allreduce(2 * x, "none")
        return used + 0 * unused + 0 * many if dist.get_rank() == 0 else used

    before = gqsgd.torch.groups.shared(None).counter
    found = torch.compile(work, fullgraph=True, backend="aot_eager")(torch.ones(3))
    return found.tolist(), gqsgd.torch.groups.shared(None).counter - before


def test_a_compiled_call_whose_result_is_unused_still_runs(torch_groups):
    assert torch_groups(2).run(unused_on_one_rank) == [([2.0] * 3, 4)] * 2


def beside_a_hook():
    """Correlation of the errors of two models' worth of equal calls, step by step."""
    x, step_count = values(), 40
    exact = x.clone()
    dist.all_reduce(exact)
    with gqsgd.torch.connect(dist.new_group([0, 1])) as comm:  # draws as a hook does
        gqsgd.torch.groups.shared(None).counter = 0
        pairs = [
            (gqsgd.torch.allreduce(x) - exact / 2,
             comm.allreduce(x, gqsgd.Quantizer(), step=step) - exact / 2)
            for step in range(step_count)]
    return torch.corrcoef(torch.tensor([[a.flatten().tolist(), b.flatten().tolist()]
                                        for a, b in pairs]).transpose(0, 1).flatten(1))[0, 1].item()


def test_functions_draw_other_numbers_than_a_hook_beside_them(torch_groups):
    """80,000 pairs of errors correlate by 0 +- 0.004; with the same numbers they are equal."""
    assert all(abs(found) < 0.02 for found in torch_groups(2).run(beside_a_hook))


def saved_in_checkpoints():
    """The values of one call, in forward and in the recomputation; and how many calls were made."""
    from torch.utils import checkpoint

    seen, comm = [], gqsgd.torch.groups.shared(None)

    def layer(x):
        mean = gqsgd.torch.allreduce(x)
        seen.append(mean.detach().clone())
        return mean.sin()

    before, x = comm.counter, values().requires_grad_()
    saved = [torch.ops.gqsgd.allreduce.default]
    checkpoint.checkpoint(
        layer, x, use_reentrant=False,
        context_fn=lambda: checkpoint.create_selective_checkpoint_contexts(saved),
    ).sum().backward()
    assert torch.equal(seen[0], seen[-1])
    return len(seen), comm.counter - before


def test_activation_checkpoints_may_save_the_result(torch_groups):
    """Seen twice, made once; the second call is that of the gradient."""
    assert torch_groups(2).run(saved_in_checkpoints) == [(2, 2)] * 2


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
    with pytest.raises(gqsgd.InvalidArgument, match="'max'; accepted are mean, sum"):
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
    for op in ("avg", dist.ReduceOp.MAX):
        with pytest.raises(gqsgd.InvalidArgument, match="op is .*ReduceOp.SUM"):
            gqsgd.torch.allreduce(torch.ones(3), op=op)
    with pytest.raises(TypeError, match="quantizer is a int, not a Quantizer"):
        gqsgd.torch.allreduce(torch.ones(3), 8)
    for group in ("world", dist.GroupMember.NON_GROUP_MEMBER):
        with pytest.raises(TypeError, match="group is a .*, not a ProcessGroup"):
            gqsgd.torch.allreduce(torch.ones(3), group=group)
    return gqsgd.torch.allreduce(torch.ones(3), "none").tolist()


def test_what_is_refused_leaves_the_group_usable(torch_groups):
    assert torch_groups(2).run(refused) == [[1, 1, 1]] * 2
