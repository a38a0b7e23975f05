"""HookState says what is wrong with its arguments when it is made, and when it was never used."""

import gc
import os
import pickle
import subprocess
import sys
import warnings
from pathlib import Path

import gqsgd.torch
import pytest
import torch

INVALID = gqsgd.InvalidArgument


@pytest.mark.parametrize(("arguments", "kind", "sentence"), [
    ({"transport": "grup"}, INVALID, "'grup'; accepted are auto, process, network, group, nccl"),
    ({"quantizer": "bocks-8"}, INVALID, "bocks-8"),
    ({"quantizer": None}, TypeError, "quantizer is a NoneType, not a Quantizer"),
    ({"quantizer": 3}, TypeError,
     'quantizer is a int, not a Quantizer or the name of one; hint: "blocks-8" for example'),
    ({"quantizer": "rotated-8,seed=2"}, INVALID,
     'rotated-8,seed=2 turns zeros into noise, which embeddings must be kept from; hint: '
     'HookState("rotated-8,seed=2", model=net)'),
    ({"schedule": "sparse"}, INVALID, "schedule is 'sparse'; accepted are auto"),
    ({"timeout": 3}, INVALID, 'option "timeout" is not known'),
    ({"timeout_ms": "soon"}, INVALID, "timeout_ms=soon is not an integer"),
    ({"nodes": [0, "a"]}, INVALID, 'nodes has "a" for rank 1'),
    ({"policy": "none"}, TypeError, "policy is a str, not a function"),
    ({"process_group": 2}, TypeError, "process_group is a int, not a ProcessGroup; hint: "),
    ({"communicator": "mpi"}, TypeError, "communicator is a str, not a Communicator; hint: "),
    ({"model": torch.nn.Linear(2, 2), "policy": lambda *_: "bocks-8"}, INVALID, "bocks-8"),
])
def test_arguments_that_no_backward_could_use_are_refused_at_once(arguments, kind, sentence):
    with pytest.raises(kind) as caught:
        gqsgd.torch.HookState(**arguments)
    assert sentence in str(caught.value)


def test_names_are_those_of_the_model():
    class Wrapper(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.module = torch.nn.Linear(2, 2)

    model, seen = Wrapper(), []
    state = gqsgd.torch.HookState(model=model, policy=lambda name, *_: seen.append(name) or "none")
    assert seen == [name for name, _ in model.named_parameters()]
    state._unused.used()


def test_arguments_of_fsdp_are_refused_at_once():
    with pytest.raises(INVALID, match="'grup'; accepted are auto, process"):
        gqsgd.torch.ReduceScatter(transport="grup")
    with pytest.raises(INVALID, match='option "timeout" is not known'):
        gqsgd.torch.ReduceScatter(timeout=3)
    with pytest.raises(TypeError, match="quantizer is a int, .* hint: "):
        gqsgd.torch.ReduceScatter(3)


@pytest.mark.parametrize("nodes", [[0, 0, 1, 1], torch.tensor([0, 0, 1, 1])])
def test_arguments_that_are_right_are_taken(nodes):
    state = gqsgd.torch.HookState(
        "rotated-8", model=torch.nn.Linear(2, 2), nodes=nodes, timeout_ms=-1, threads=2)
    assert state.communicator is None  # no group, no wait
    with pytest.raises(INVALID, match="init_process_group"):
        state.connect()
    state._unused.used()


def warned(end):
    """The warnings of what `end` does to a state that was never used."""
    state = gqsgd.torch.HookState()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        end(state)
        del state
        gc.collect()
    return [str(each.message) for each in caught]


def close_twice(state):
    state.close()
    state.close()


def close_after_an_error(state):
    try:
        raise ValueError("the training failed")
    except ValueError:
        state.close()


@pytest.mark.parametrize("end", [close_twice, lambda state: None])
def test_a_hook_that_was_never_called_warns_once(end):
    (sentence,) = warned(end)
    assert "never called" in sentence and "register_comm_hook" in sentence


def test_where_an_error_is_under_way_there_is_no_warning():
    assert warned(close_after_an_error) == []


def test_copies_and_loaded_states_do_not_warn():
    def load(state):
        state.load_state_dict({**state.state_dict(), "step": 3})

    def close_copy(state):
        pickle.loads(pickle.dumps(state)).close()
        load(state)

    assert warned(load) == []
    assert warned(close_copy) == []


PROGRAM = """
import gqsgd.torch, os, sys
state = gqsgd.torch.HookState()
{end}
"""


@pytest.mark.parametrize(("end", "count"), [
    ("", 1),
    ("raise ValueError('the training failed')", 0),
    ("if os.fork() == 0: sys.exit()\nos.wait(); sys.stderr = sys.__stdout__", 0),
])
def test_at_the_end_of_a_program(end, count):
    """The parent of the last one prints its own warning elsewhere."""
    package = Path(__file__).resolve().parents[3] / "bindings" / "python"
    path = os.pathsep.join([str(package), *sys.path])
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(end=end)], capture_output=True, text=True,
        timeout=100, env={**os.environ, "PYTHONPATH": path})
    assert result.stderr.count("never called") == count


def test_a_reducer_without_buckets_is_refused():
    """What DDP's Python reducer gives a hook."""
    state, gradient = gqsgd.torch.HookState(), torch.ones(3)
    with pytest.raises(gqsgd.Unsupported, match="optimize_ddp = True"):
        gqsgd.torch.allreduce_hook(state, (gradient, torch.nn.Parameter(gradient)))
    with pytest.warns(RuntimeWarning, match="never called"):
        state.close()
