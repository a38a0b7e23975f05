"""A state in checkpoints: the run that resumes has the bits of the one that went on; and passes of
static graphs."""

import io
import pickle

import gqsgd.torch
import pytest
import torch
import torch_models as models

STEPS_BEFORE, STEPS_AFTER = 3, 3
# Whose first backward pass numbers no buckets, and whose buckets are divided anew after the second.
STATIC = {"bucket_cap_mb": 0.01, "static_graph": True}


def checkpointed(as_pickle):
    """(bits of the run that went on, checkpoint in its middle) of this rank."""
    model, state = models.hooked(models.perceptron())
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    models.train(model, range(STEPS_BEFORE), optimizer=optimizer)
    saved = io.BytesIO()
    torch.save({
        "net": model.module.state_dict(),
        "optimizer": optimizer.state_dict(),
        "hook": state if as_pickle else state.state_dict(),
    }, saved)
    models.train(model, range(STEPS_BEFORE, STEPS_BEFORE + STEPS_AFTER), optimizer=optimizer)
    assert len(state.state_dict()["layout"]) > 1  # buckets were rebuilt: a new model has one
    state.close()
    return models.digest(model.parameters()), saved.getvalue()


def resumed(saved, load_layout=True):
    """Bits of a new model that goes on from the checkpoint, as in a new process."""
    checkpoint = torch.load(io.BytesIO(saved), weights_only=False)
    net = models.perceptron(seed=1)
    net.load_state_dict(checkpoint["net"])
    hook = checkpoint["hook"]
    if isinstance(hook, gqsgd.torch.HookState):
        model = torch.nn.parallel.DistributedDataParallel(net, bucket_cap_mb=0.01)
        state = hook
        model.register_comm_hook(state, gqsgd.torch.allreduce_hook)
    else:
        model, state = models.hooked(net)
        state.load_state_dict(hook if load_layout else {**hook, "layout": []})
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    optimizer.load_state_dict(checkpoint["optimizer"])
    assert state.step == STEPS_BEFORE
    steps = range(STEPS_BEFORE, STEPS_BEFORE + STEPS_AFTER)
    models.train(model, steps, optimizer=optimizer)
    assert state.step == STEPS_BEFORE + STEPS_AFTER
    state.close()
    return models.digest(model.parameters())


def rolled_back():
    """The same process takes up its own checkpoint again."""
    model, state = models.hooked(models.perceptron())
    models.train(model, range(STEPS_BEFORE))
    net = {name: value.clone() for name, value in model.state_dict().items()}
    saved = state.state_dict()
    bits = []
    for _ in range(2):
        model.load_state_dict(net)
        state.load_state_dict(saved)
        models.train(model, range(STEPS_BEFORE, STEPS_BEFORE + STEPS_AFTER))
        bits.append(models.digest(model.parameters()))
    state.close()
    assert bits[0] == bits[1]


def test_a_run_that_is_rolled_back_has_the_same_bits(torch_groups):
    torch_groups(2).run(rolled_back)


@pytest.mark.parametrize("as_pickle", [False, True])
def test_a_resumed_run_has_the_same_bits(torch_groups, as_pickle):
    group = torch_groups(2)
    (went_on, saved), (same, _) = group.run(checkpointed, as_pickle)
    assert went_on == same
    assert group.run(resumed, saved) == [went_on] * 2


def test_without_the_division_of_buckets_it_has_not(torch_groups):
    group = torch_groups(2)
    (went_on, saved), _ = group.run(checkpointed, False)
    assert went_on not in group.run(resumed, saved, False)


def test_another_number_of_ranks_resumes(torch_groups):
    _, saved = torch_groups(2).run(checkpointed, False)[0]
    bits = torch_groups(4).run(resumed, saved)
    assert len(set(bits)) == 1


def of_another_model(saved):
    checkpoint = torch.load(io.BytesIO(saved), weights_only=False)
    model, state = models.hooked(torch.nn.Linear(32, 4))
    state.load_state_dict(checkpoint["hook"])
    with pytest.raises(gqsgd.InvalidArgument, match="8 parameters that get gradients.*has 2"):
        models.train(model, [0])
    state.close()


def test_a_checkpoint_of_another_model_is_refused(torch_groups):
    group = torch_groups(2)
    group.run(of_another_model, group.run(checkpointed, False)[0][1])


def test_a_checkpoint_of_another_quantizer_is_refused():
    saved = gqsgd.torch.HookState("blocks-8,seed=1").state_dict()
    with pytest.raises(gqsgd.InvalidArgument, match="seed=1.*seed=0"):
        gqsgd.torch.HookState("blocks-8").load_state_dict(saved)
    state = gqsgd.torch.HookState(saved["quantizer"])
    state.load_state_dict({**saved, "step": 7})
    assert state.step == 7
    with pytest.raises(gqsgd.InvalidArgument, match="version 3"):
        state.load_state_dict({**saved, "version": 3})
    with pytest.raises(gqsgd.InvalidArgument, match="keys: net; hint"):
        state.load_state_dict({"net": saved})


def test_a_state_dict_loads_as_weights_only():
    saved = io.BytesIO()
    state = gqsgd.torch.HookState()
    torch.save(state.state_dict(), saved)
    saved.seek(0)
    assert torch.load(saved, weights_only=True) == state.state_dict()


def unbound():
    """An unpickled state that must know embeddings wants its model first."""
    model, state = models.hooked(models.perceptron(), "rotated-8")
    models.train(model, [0])
    copy = pickle.loads(pickle.dumps(state))
    state.close()
    again = torch.nn.parallel.DistributedDataParallel(model.module)
    again.register_comm_hook(copy, gqsgd.torch.allreduce_hook)
    with pytest.raises(gqsgd.InvalidArgument, match=r"bind\(model\)"):
        models.train(again, [1])
    again = torch.nn.parallel.DistributedDataParallel(model.module)  # that one is in mid-backward
    again.register_comm_hook(copy, gqsgd.torch.allreduce_hook)
    copy.bind(again)
    models.train(again, [1])
    assert copy.step == 2
    copy.close()


def test_an_unpickled_rotated_state_is_bound_to_its_model(torch_groups):
    torch_groups(2).run(unbound)


def keyed(make, ddp, quantizer):
    """Each pass is one step of the state, in which no two calls draw the same."""
    model, state = models.hooked(make(), quantizer, ddp=ddp)
    keys, reduce = [], state.connect().allreduce_many

    class Kept:
        def __getattr__(self, name):
            return getattr(comm, name)

        def allreduce_many(self, *args, **call):
            keys.append((call["step"], call["index"]))
            return reduce(*args, **call)

    comm, state._lane.comm = state._lane.comm, Kept()
    for step in range(3):
        models.train(model, [step])
        assert state.step == step + 1
        with_gradient = [g for g in models.gradients(model) if g is not None]
        assert len(state.report().rows) >= len(with_gradient)
    state._lane.comm = comm
    state.close()
    assert {step for step, _ in keys} == {0, 1, 2}
    assert len(set(keys)) == len(keys)
    return models.digest(model.parameters())


def without_first_bucket():
    """The first bucket has the last layer."""
    net = models.perceptron()
    net.append(torch.nn.Linear(64, 64))
    net.forward = lambda x: torch.nn.Sequential.forward(net[:5], x)
    return net


def without_last_bucket():
    net = models.perceptron()
    net.insert(0, torch.nn.Linear(64, 64))
    net.forward = lambda x: torch.nn.Sequential.forward(net[1:], x)
    return net


SKIPPING = {"bucket_cap_mb": 0.01, "find_unused_parameters": True,
            "skip_all_reduce_unused_params": True}


@pytest.mark.parametrize(("make", "ddp"), [
    (models.Mixed, STATIC), (without_first_bucket, SKIPPING), (without_last_bucket, SKIPPING)])
def test_a_pass_is_a_step_whose_calls_have_keys_of_their_own(torch_groups, make, ddp):
    first, second = torch_groups(2).run(keyed, make, ddp, "blocks-8")
    assert first == second


def skipping_where_the_last_is_waited_for():
    for options in ({"gather_floats": True}, {}):
        model, state = models.hooked(without_last_bucket(), ddp=SKIPPING, **options)
        if not options:
            models.train(model, [0])
            state.load_state_dict(state.state_dict())
        with pytest.raises(gqsgd.Unsupported, match="leaves out buckets"):
            models.train(model, [1])
        state.close()


def test_no_bucket_is_waited_for_that_never_comes(torch_groups):
    torch_groups(2).run(skipping_where_the_last_is_waited_for)


def of_static_graph(make, options, saved=None):
    """The run up to its end from its beginning or a checkpoint: its bits, and the checkpoint."""
    net = make()
    model, state = models.hooked(net, ddp=STATIC, **options)
    if saved is not None:
        net.load_state_dict(saved["net"])
        state.load_state_dict(saved["hook"])
    first = 0 if saved is None else STEPS_BEFORE
    models.train(model, range(first, STEPS_BEFORE))
    values = {name: value.clone() for name, value in net.state_dict().items()}
    saved = {"net": values, "hook": state.state_dict()}
    models.train(model, range(STEPS_BEFORE, STEPS_BEFORE + STEPS_AFTER))
    assert state.step == STEPS_BEFORE + STEPS_AFTER
    state.close()
    return models.digest(model.parameters()), saved


@pytest.mark.parametrize("make", [models.perceptron, models.Mixed])
@pytest.mark.parametrize("options", [{}, {"budget": 4}, {"gather_floats": True}], ids=str)
def test_a_resumed_run_of_a_static_graph_has_the_same_bits(torch_groups, make, options):
    group = torch_groups(2)
    (went_on, saved), _ = group.run(of_static_graph, make, options)
    assert [bits for bits, _ in group.run(of_static_graph, make, options, saved)] == [went_on] * 2


def of_another_static_graph(saved):
    model, state = models.hooked(models.Mixed(), ddp=STATIC)
    model.module.net[0].bias.requires_grad_(False)
    model = torch.nn.parallel.DistributedDataParallel(model.module, **STATIC)
    model.register_comm_hook(state, gqsgd.torch.allreduce_hook)
    state.load_state_dict(saved)
    with pytest.raises(gqsgd.InvalidArgument, match="8 parameters that get gradients.*has 7"):
        models.train(model, [0])
    state.close()


def test_a_checkpoint_of_another_static_graph_is_refused(torch_groups):
    group = torch_groups(2)
    (_, saved), _ = group.run(of_static_graph, models.Mixed, {})
    group.run(of_another_static_graph, saved["hook"])
