"""The DDP hook: replicas, values, and the ways in which DDP calls it."""

import os
import re
import warnings

import gqsgd.torch
import pytest
import torch
import torch.distributed as dist
import torch_models as models
from gqsgd.torch import lanes


def replicas(quantizer, transport, step_count):
    model, state = models.hooked(models.perceptron(), quantizer, transport=transport)
    seen = []
    for step in range(step_count):
        models.train(model, [step])
        seen.append(models.digest(model.parameters()))
    assert (state.step, len(set(seen))) == (step_count, step_count)  # and every step counts
    sent_bytes = state.communicator.stats()["payload_bytes_sent"]
    state.close()
    return seen, sent_bytes


@pytest.mark.parametrize(("size", "quantizer"), [(2, ""), (2, "rotated-8"), (4, "")])
def test_replicas_are_bit_identical_for_200_steps(torch_groups, size, quantizer):
    results = torch_groups(size).run(replicas, quantizer, "auto", 200)
    assert len({tuple(seen) for seen, _ in results}) == 1


def test_transports_give_the_same_bits(torch_groups):
    group = torch_groups(2)
    transports = ("process", "network", "group")
    process, *others = (group.run(replicas, "", name, 3) for name in transports)
    for other in others:
        assert [seen for seen, _ in process] == [seen for seen, _ in other]


def measured_replicas(transport, costs):
    """What the ranks measured, and the replicas: of three steps by the given costs."""
    model, state = models.hooked(models.perceptron(), "", transport=transport, costs=costs)
    for step in range(3):
        models.train(model, [step])
    found = state.communicator.costs
    state.close()
    return found, models.digest(model.parameters())


@pytest.mark.parametrize("transport", ["process", "network", "group"])
def test_measured_costs_repeat_a_run(torch_groups, transport):
    group = torch_groups(2)
    first, second = group.run(measured_replicas, transport, "measure")
    assert first == second and first[0]
    assert group.run(measured_replicas, transport, first[0]) == [first] * 2


def test_compressed_buckets_are_smaller(torch_groups):
    group = torch_groups(2)
    (_, plain_bytes), (_, bytes_sent) = (
        group.run(replicas, quantizer, "auto", 3)[0] for quantizer in ("none", "")
    )
    # Most parameters go in a quarter of the bytes; vectors and small ones go as they are.
    assert bytes_sent < 0.45 * plain_bytes


def mean_of_ranks():
    """The hook's gradients, those of every rank alone, and what `allreduce_many` makes of them."""
    model, state = models.hooked(models.perceptron(), ddp={"bucket_cap_mb": 25})
    inputs, targets = models.batch(0)
    own = models.local_gradients(
        model, lambda m: torch.nn.functional.mse_loss(m(inputs), targets))
    torch.nn.functional.mse_loss(model(inputs), targets).backward()
    found = models.gradients(model)
    # A new model has one bucket, in the order of its parameters; two calls, by quantizer.
    order = list(range(len(own)))
    wide = [k for k in order if own[k].ndim > 1 and own[k].numel() >= 1024]
    expected = list(own)
    comm = state.communicator
    calls = [(wide, gqsgd.Quantizer()),
             ([k for k in order if k not in wide], gqsgd.Quantizer("none"))]
    for index, (numbers, quantizer) in enumerate(calls):
        flat = [own[k].reshape(-1) for k in numbers]
        means = comm.allreduce_many(flat, quantizer, step=0, index=index)
        for k, mean in zip(numbers, means):
            expected[k] = mean.view_as(own[k])
    exact = [gradient.clone() for gradient in own]
    for gradient in exact:
        dist.all_reduce(gradient)
        gradient /= dist.get_world_size()
    state.close()
    assert all(torch.equal(a, b) for a, b in zip(found, expected))
    return [(((a - b).norm() / b.norm()).item(), a.numel()) for a, b in zip(found, exact)]


def test_gradients_are_means_with_norms_of_their_own(torch_groups):
    for errors in torch_groups(2).run(mean_of_ranks):
        for error, value_count in errors:
            # 8 bits with blocks of 128: 1e-2 is what docs/PRESETS.md has; float32 sums are exact
            # but for rounding.
            assert error < (0.03 if value_count >= 1024 else 1e-6)


def odd_models():
    """One parameter; a parameter without values; parameters that no loss depends on."""

    class Odd(torch.nn.Module):
        def __init__(self, *shapes):
            super().__init__()
            self.used = torch.nn.Parameter(torch.ones(40, 40))
            self.others = torch.nn.ParameterList(torch.nn.Parameter(torch.ones(s)) for s in shapes)

        def forward(self, x):
            loss = (self.used * x).sum()
            for other in self.others:
                if other.numel() == 0:
                    loss = loss + other.sum()
            return loss

    x = float(dist.get_rank() + 1)
    mean = (1 + dist.get_world_size()) / 2
    for shapes, options in [
        ((), {}), ([(0,)], {"bucket_cap_mb": 0.001}),
        ([(50, 50), (3,)], {"find_unused_parameters": True}),
    ]:
        model, state = models.hooked(Odd(*shapes), ddp=options)
        for _ in range(3):  # buckets are rebuilt after the first
            model.zero_grad()
            model(x).backward()
            assert (model.module.used.grad - mean).abs().max() < 0.02 * mean
        assert state.step == 3
        for other in model.module.others:
            assert other.grad is None or not other.grad.any()
        state.close()


def test_one_parameter_no_values_and_unused_parameters(torch_groups):
    torch_groups(2).run(odd_models)


def accumulated():
    """Two backward passes of which the first stays local count as one step."""
    model, state = models.hooked(models.perceptron(), "none")
    inputs, targets = models.batch(0)
    more_inputs, more_targets = models.batch(1)
    loss = torch.nn.functional.mse_loss
    with model.no_sync():
        loss(model(inputs), targets).backward()
    assert state.step == 0
    loss(model(more_inputs), more_targets).backward()
    both = models.gradients(model)
    assert state.step == 1
    model.zero_grad()
    both = [gradient.clone() for gradient in both]
    (loss(model(inputs), targets) + loss(model(more_inputs), more_targets)).backward()
    state.close()
    for a, b in zip(both, models.gradients(model)):
        torch.testing.assert_close(a, b)


def test_no_sync_accumulates(torch_groups):
    torch_groups(2).run(accumulated)


def two_hooks():
    """Two models, alternately, each with a state; neither changes the other's bits."""
    def alone(seed):
        model, state = models.hooked(models.perceptron(seed))
        models.train(model, range(3), seed)
        state.close()
        return models.digest(model.parameters())

    expected = [alone(1), alone(2)]
    pairs = [models.hooked(models.perceptron(seed)) for seed in (1, 2)]
    for step in range(3):
        for seed, (model, _) in zip((1, 2), pairs):
            models.train(model, [step], seed)
    for _, state in pairs:
        state.close()
    assert [models.digest(model.parameters()) for model, _ in pairs] == expected


def test_two_hooks_in_one_process(torch_groups):
    torch_groups(2).run(two_hooks)


def warned_of_turns(specs, turns):
    """The kinds in warnings of models with these quantizers, which are trained in these turns."""
    pairs = [models.hooked(models.perceptron(k), spec) for k, spec in enumerate(specs)]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for turn in turns:
            models.train(pairs[turn][0], [0])
        scatter, x = gqsgd.torch.ReduceScatter(specs[0], timeout_ms=60000), torch.ones(64)
        for _ in range(2 if len(set(turns)) == 1 else 0):
            scatter(torch.empty(32), x, dist.group.WORLD, dist.ReduceOp.AVG)
            models.train(pairs[0][0], [0])
    for _, state in pairs:
        state.close()
    scatter.close()
    found = [re.match(r"a (\w+) and a (\w+) of this program draw the same", str(each.message))
             for each in caught]
    return [sorted(match.groups()) for match in found if match]


def test_objects_that_draw_the_same_numbers_in_turns_are_warned_of(torch_groups):
    """Once; not where seeds differ, nor of a training that follows another one."""
    group = torch_groups(2)

    def warned(*arguments):
        first, second = group.run(warned_of_turns, *arguments)
        assert first == second
        return first

    both = ["blocks-8,seed=71"] * 2
    assert warned(both, [0, 0, 1, 1]) == []
    assert warned(both, [0, 1, 0, 1, 0]) == [["HookState", "HookState"]]
    assert warned(["blocks-8,seed=72", "blocks-8,seed=73"], [0, 1, 0]) == []
    assert warned(["none", "none"], [0, 1, 0]) == []
    assert warned(["blocks-8,seed=74"], [0]) == [["HookState", "ReduceScatter"]]


def forked():
    """A child, as loaders have them, drops its copy of the state; the parent trains on."""
    model, state = models.hooked(models.perceptron())
    models.train(model, [0])
    child = os.fork()
    if child == 0:
        try:
            state.close()
        except BaseException:
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    models.train(model, [1])
    state.close()
    return status, models.digest(model.parameters())


def test_a_forked_child_may_drop_the_state(torch_groups):
    first, second = torch_groups(2).run(forked)
    assert first == second
    assert first[0] == 0


def borrowed():
    """A communicator of the caller's serves the hook, and is the caller's again afterwards."""
    comm = gqsgd.torch.connect(None, timeout_ms=60000)
    model, state = models.hooked(models.perceptron(), communicator=comm)
    models.train(model, range(2))
    assert state.communicator is comm
    state.close()
    total = comm.allreduce(torch.ones(3), gqsgd.Quantizer("none"), "sum")
    comm.close()
    return models.digest(model.parameters()), total.tolist()


def test_a_communicator_may_be_borrowed(torch_groups):
    group = torch_groups(2)
    (first, total), (second, _) = group.run(borrowed)
    assert first == second and total == [2.0] * 3
    assert group.run(replicas, "", "auto", 2)[0][0][-1] == first


def disagreement():
    """Ranks with different policies: every rank gets the sentence, out of backward."""
    quantizer = ["blocks-8", "blocks-8,seed=1"][dist.get_rank()]
    model, state = models.hooked(models.perceptron(), policy=lambda *_: quantizer)
    with pytest.raises(RuntimeError, match="seed") as caught:
        models.train(model, [0])
    state.close()
    return str(caught.value)


def test_ranks_that_disagree_are_reported(torch_groups):
    for sentence in torch_groups(2).run(disagreement):
        assert "Mismatch" in sentence


def test_embeddings_need_the_model():
    with pytest.raises(gqsgd.InvalidArgument, match="model="):
        gqsgd.torch.HookState("rotated-8")
    gqsgd.torch.HookState("blocks-8")
    gqsgd.torch.HookState("rotated-8", policy=lambda name, parameter, module: "rotated-8")


def of_another_model():
    """A state that names a model, or has served one, refuses another's gradients."""
    served, state = models.hooked(models.perceptron())
    models.train(served, [0])
    for other in gqsgd.torch.HookState(model=served), state, torch.nn.Linear(32, 4):
        model = torch.nn.parallel.DistributedDataParallel(models.perceptron())
        model.register_comm_hook(other, gqsgd.torch.allreduce_hook)
        kind = gqsgd.InvalidArgument if isinstance(other, gqsgd.torch.HookState) else TypeError
        with pytest.raises(kind, match="hint: ") as caught:
            models.train(model, [1])
        yield str(caught.value)
    state.close()


def sentences_of_another_model():
    return list(of_another_model())


def test_one_state_is_for_one_model(torch_groups):
    for named, served, swapped in torch_groups(2).run(sentences_of_another_model):
        assert "has no parameter of shape" in named and "DistributedDataParallel wraps" in named
        assert "one HookState for each model" in served
        assert "state is a Linear" in swapped


def without_a_model():
    """The same for a state that was made without `model`, and that new parameters may look like."""
    state = gqsgd.torch.HookState(timeout_ms=60000)
    for step in range(2):
        model = torch.nn.parallel.DistributedDataParallel(models.perceptron())
        model.register_comm_hook(state, gqsgd.torch.allreduce_hook)
        if step == 0:
            models.train(model, [step])
    with pytest.raises(gqsgd.InvalidArgument, match="one HookState for each model"):
        models.train(model, [1])
    assert repr(state) == "<HookState blocks-8, step 1>"
    state.close()


def test_a_state_without_a_model_is_for_one_as_well(torch_groups):
    torch_groups(2).run(without_a_model)


def bound_to_another():
    """A model of the same shapes, of which the policy thinks otherwise. What is found out about
    parameters once is found out anew."""
    floats = set()
    state = gqsgd.torch.HookState(
        policy=lambda name, parameter, module: "none" if name in floats else "blocks-8",
        timeout_ms=60000)
    seen = []
    for _ in range(2):
        model = torch.nn.parallel.DistributedDataParallel(models.perceptron())
        state.bind(model)
        model.register_comm_hook(state, gqsgd.torch.allreduce_hook)
        models.train(model, [0, 1, 2])  # DDP divides parameters among buckets twice
        seen.append({row.name: row.format for row in state.report().rows})
        floats |= {"0.weight", "2.weight"}
    state.close()
    return seen


def test_a_state_may_be_bound_to_another_model(torch_groups):
    for first, second in torch_groups(2).run(bound_to_another):
        assert set(first.values()) == {"blocks-8"} and first.keys() == second.keys()
        assert {name for name, form in second.items() if form == "none"} == {"0.weight", "2.weight"}


def unfrozen():
    """Where more parameters get gradients than before, a new state goes on at the same step."""
    net = models.perceptron()
    net[0].requires_grad_(False)
    model, state = models.hooked(net)
    models.train(model, [0, 1])
    net[0].requires_grad_(True)
    model = torch.nn.parallel.DistributedDataParallel(net)
    model.register_comm_hook(state, gqsgd.torch.allreduce_hook)
    with pytest.raises(gqsgd.InvalidArgument, match="a new one, with the step of this one, where"):
        models.train(model, [2])
    model = torch.nn.parallel.DistributedDataParallel(net)
    state.bind(model)
    model.register_comm_hook(state, gqsgd.torch.allreduce_hook)
    with pytest.raises(gqsgd.InvalidArgument, match="this state continues one of 6 parameters"):
        models.train(model, [2])
    model, after = models.hooked(net)
    after.step = state.step
    models.train(model, [2])
    assert after.step == 3
    state.close()
    after.close()


def test_a_new_state_goes_on_where_more_parameters_get_gradients(torch_groups):
    torch_groups(2).run(unfrozen)


def test_no_process_group_is_reported():
    with pytest.raises(gqsgd.InvalidArgument, match="init_process_group"):
        gqsgd.torch.connect(None)
    with pytest.raises(gqsgd.InvalidArgument, match="'tcp'; accepted are auto, .*, nccl"):
        gqsgd.torch.connect(None, "tcp")


def test_after_a_failure_a_backward_pass_makes_no_more_calls():
    """A rank that closes its communicator on the first failure is in no later call then, where the
    other ranks would report the closing instead of the cause."""
    failure, made = gqsgd.Nonfinite("rank 1"), []

    class Comm:
        rank = 0

        def allreduce_many(self, call):
            made.append(call)
            raise failure

    def all_of(lane):
        outcomes = [lane.outcome(torch.zeros(1)) for _ in range(3)]
        for k, outcome in enumerate(outcomes):
            lane.run([{"call": k}], [outcome])
        for outcome in outcomes:
            with pytest.raises(RuntimeError, match="Nonfinite: rank 1"):
                outcome.future().wait()

    lane = lanes.ThreadLane(Comm(), True)
    lane.begin()
    all_of(lane)
    assert made == [0]
    lane.begin()
    all_of(lane)
    assert made == [0, 0]
    lane.close()
