"""gqsgd.jax.allreduce with one rank: the bits of gqsgd.Communicator, dtypes, trees, state."""

import re

import gqsgd
import gqsgd.jax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gqsgd.jax import _handler

# Programs that run once may have their state as a constant.
pytestmark = pytest.mark.filterwarnings("ignore:the state of gqsgd.jax.allreduce is a constant")

Q = gqsgd.Quantizer("paper-gl8", seed=3)


def values(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def bits(array):
    return np.asarray(array).tobytes()


def test_the_bits_are_those_of_the_communicator_under_jit_and_without(comm):
    x, state = values(1000), gqsgd.jax.state(step=5, index=2)
    expected = comm.allreduce(x, Q, step=5, index=2)
    eager, _ = gqsgd.jax.allreduce(x, state, comm, Q)
    jitted, _ = jax.jit(lambda x, state: gqsgd.jax.allreduce(x, state, comm, Q))(x, state)
    assert bits(eager) == bits(jitted) == bits(expected)
    assert bits(expected) != bits(x)  # it was quantized


@pytest.mark.parametrize("name", ["float32", "float16", "bfloat16", "float64"])
@pytest.mark.parametrize("op", ["mean", "sum"])
def test_dtypes_and_operations(name, op, comm):
    with jax.enable_x64(name == "float64"):
        x = jnp.asarray(values(300), dtype=name)
        y, _ = gqsgd.jax.allreduce(x, gqsgd.jax.state(), comm, Q, op=op)
        assert (y.dtype, y.shape) == (x.dtype, x.shape)
        buffer = np.asarray(x)
        assert bits(y) == bits(comm.allreduce(buffer, Q, op=op, step=0)), name


def test_dtype_of_integers_is_refused_by_name(comm):
    with pytest.raises(gqsgd.InvalidArgument, match="x has dtype int32; accepted are float32"):
        gqsgd.jax.allreduce(jnp.arange(3), gqsgd.jax.state(), comm, Q)


@pytest.mark.parametrize(
    ("wrong", "error", "sentence"),
    [
        (jnp.arange(3), gqsgd.InvalidArgument, "x['layers'][1]['steps'] has dtype int32;"),
        ("adam", TypeError, "x['layers'][1]['steps'] is a str, not an array of float32"),
    ],
)
@pytest.mark.parametrize("jit", [False, True])
def test_a_leaf_that_cannot_be_added_is_named_by_its_path(jit, wrong, error, sentence, comm):
    def mean(leaf):
        tree = {"layers": [{"w": jnp.ones(3)}, {"w": jnp.ones(3), "steps": leaf}]}
        return gqsgd.jax.allreduce(tree, gqsgd.jax.state(), comm, Q)

    with pytest.raises(error, match=re.escape(sentence)):
        jax.jit(lambda: mean(wrong))() if jit else mean(wrong)


def test_a_forgotten_state_is_named(comm):
    sentence = r"^the state is missing, a Communicator is in its place: .*hint: gqsgd\.jax\.state"
    for call in (
        lambda: gqsgd.jax.allreduce(values(3), comm, Q),
        lambda: gqsgd.jax.allreduce(values(3), comm, Q, "sum"),
        lambda: gqsgd.jax.allreduce(values(3), [comm], Q),
        lambda: gqsgd.jax.allreduce(values(3), q=Q, state=comm, comm=comm),
    ):
        with pytest.raises(TypeError, match=sentence):
            call()
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'q'"):
        gqsgd.jax.allreduce(values(3), gqsgd.jax.state(), comm)


@pytest.mark.parametrize("comm", [3, [3]])
def test_what_is_no_communicator_is_named(comm):
    with pytest.raises(TypeError, match="int; it is a gqsgd.Communicator, or a list"):
        gqsgd.jax.allreduce(jnp.ones(3), gqsgd.jax.state(), comm, gqsgd.Quantizer())


@pytest.mark.parametrize("shape", [(), (0,), (1,), (3, 0, 2), (2, 3, 4)])
def test_any_shape_keeps_its_shape(shape, comm):
    x = values(*shape)
    y, state = gqsgd.jax.allreduce(x, gqsgd.jax.state(), comm, gqsgd.Quantizer("none"))
    assert y.shape == shape
    assert bits(y) == bits(x)
    assert state.tolist() == [0, 1]


def test_arrays_of_a_tree_are_one_operation_for_each_dtype(comm):
    tree = {
        "a": values(200),
        "b": (jnp.asarray(values(50), jnp.bfloat16), values(3, 4, seed=1)),
        "c": jnp.zeros(0, jnp.float32),
    }
    calls = comm.stats()["calls"]
    result, state = jax.jit(lambda tree: gqsgd.jax.allreduce(tree, STATE, comm, Q))(tree)
    assert comm.stats()["calls"] - calls == 2
    assert state.tolist() == [0, 2]
    assert jax.tree.structure(result) == jax.tree.structure(tree)
    a, b1, c = comm.allreduce_many([tree["a"], tree["b"][1], np.asarray(tree["c"])], Q, step=0)
    b0 = comm.allreduce(np.asarray(tree["b"][0]), Q, step=0, index=1)
    for got, expected in zip(jax.tree.leaves(result), [a, b0, b1, c]):
        assert bits(got) == bits(expected)


def test_leaves_of_a_tree_share_a_budget_of_bits_under_jit(comm):
    """One average for the tree: a leaf of large gradients takes bits from the others."""
    q = gqsgd.Quantizer("adaptive-4", seed=3)
    tree = {"large": 100 * values(128, 64), "small": [values(128, 64, seed=k) for k in (1, 2, 3)]}
    leaves = jax.tree.leaves(tree)
    result, _ = jax.jit(lambda tree: gqsgd.jax.allreduce(tree, STATE, comm, q))(tree)
    for got, expected in zip(jax.tree.leaves(result), comm.allreduce_many(leaves, q, step=0)):
        assert bits(got) == bits(expected)

    def error(means):
        return sum(np.square(got - x).sum() for got, x in zip(means, leaves))

    alone = [comm.allreduce(x, q, step=0) for x in leaves]  # 4 bits for each of them
    assert error(jax.tree.leaves(result)) < error(alone) / 10


def test_an_empty_tree_is_no_call(comm):
    calls = comm.stats()["calls"]
    result, state = gqsgd.jax.allreduce({}, STATE, comm, Q)
    assert (result, state.tolist(), comm.stats()["calls"]) == ({}, [0, 0], calls)


def test_the_state_counts_calls_and_steps(comm):
    def two_steps(x, state):
        for _ in range(2):
            _, state = gqsgd.jax.allreduce(x, state, comm, Q)
            _, state = gqsgd.jax.allreduce(x, state, comm, Q)
            state = gqsgd.jax.next_step(state)
        return gqsgd.jax.allreduce(x, state, comm, Q)

    _, state = jax.jit(two_steps)(values(10), gqsgd.jax.state(step=2**32 - 3))
    assert state.tolist() == [2**32 - 1, 1]


def test_after_the_last_index_of_a_step_comes_the_next_step(comm):
    last = gqsgd.jax.state(step=7, index=2**16 - 1)
    y, state = gqsgd.jax.allreduce(values(100), last, comm, Q)
    assert state.tolist() == [8, 0]
    assert bits(y) == bits(comm.allreduce(values(100), Q, step=7, index=2**16 - 1))


def test_impossible_states_are_refused(comm):
    with pytest.raises(gqsgd.InvalidArgument, match="index is 65536; accepted are 0 to 65535"):
        gqsgd.jax.state(index=2**16)
    sentence = "step is 4294967296; accepted are 0 to 4294967295"
    with pytest.raises(gqsgd.InvalidArgument, match=sentence):
        gqsgd.jax.state(step=2**32)
    with pytest.raises(TypeError, match="index is 1.5, a float"):
        gqsgd.jax.state(0, 1.5)
    for wrong in (0, jnp.zeros(2, jnp.int32), jnp.zeros(3, jnp.uint32)):
        with pytest.raises(gqsgd.InvalidArgument, match=r"hint: gqsgd\.jax\.state"):
            gqsgd.jax.allreduce(values(3), wrong, comm, Q)


def test_an_unused_result_is_computed_all_the_same(comm):
    calls = comm.stats()["calls"]

    def unused(x):
        gqsgd.jax.allreduce(x, STATE, comm, Q)
        return x

    jax.block_until_ready(jax.jit(unused)(values(10)))
    jax.effects_barrier()
    assert comm.stats()["calls"] == calls + 1


def test_donated_memory_is_reused_and_the_rest_is_left_alone(comm):
    def mean(x, state):
        return gqsgd.jax.allreduce(x, state, comm, Q)

    kept = jnp.asarray(values(5000))
    expected, _ = jax.jit(mean)(kept, STATE)
    assert bits(kept) == bits(values(5000))
    donated = jnp.asarray(values(5000))
    address = donated.unsafe_buffer_pointer()
    result, _ = jax.jit(mean, donate_argnums=0)(donated, STATE)
    assert donated.is_deleted()
    assert result.unsafe_buffer_pointer() == address
    assert bits(result) == bits(expected)


def test_programs_are_compiled_once_and_name_handles_by_small_numbers(comm):
    def traced(x):
        nonlocal traces
        traces += 1
        return gqsgd.jax.allreduce(x, STATE, comm, Q)

    traces, program = 0, jax.jit(traced)
    for seed in range(3):
        program(values(20, seed=seed))
    assert traces == 1
    text = program.lower(values(20)).as_text()
    assert f"quantizer = {_handler.quantizer_number(Q)} : i32" in text
    assert f"comms = dense<{_handler.comm_numbers(comm)[0]}> : tensor<1xi32>" in text


def test_a_program_for_another_device_is_refused_by_name():
    refusal = jax.ffi.pycapsule(_handler.library().gqsgd_jax_refuse_device)
    jax.ffi.register_ffi_target("gqsgd_elsewhere", refusal, platform="cpu")
    x = jnp.ones(3)
    said = "gqsgd UNSUPPORTED: .* on CPUs and on GPUs of NVIDIA"
    with pytest.raises(jax.errors.JaxRuntimeError, match=said):
        jax.block_until_ready(jax.ffi.ffi_call("gqsgd_elsewhere", x)(x))


def test_a_program_for_gpus_is_that_for_cpus(comm):
    """The state is counted by the program, and a call passes on the memory that it is in."""
    traced = jax.jit(lambda x, s: gqsgd.jax.allreduce(x, s, comm, Q)).trace(values(9), STATE)
    text = traced.lower(lowering_platforms=("cuda",)).as_text()
    assert text.replace("cuda", "cpu") == traced.lower(lowering_platforms=("cpu",)).as_text()
    (call,) = [line for line in text.splitlines() if f"@{_handler.TARGET}(" in line]
    assert call.count("output_operand_alias<") == 2
    assert "-> (tensor<9xf32>, tensor<2xui32>)" in call
    assert "stablehlo.add" in text


@pytest.mark.parametrize("wrong", ["state", "dtype", "result", "comms", "quantizer", "op"])
def test_a_call_that_the_package_would_not_make_is_refused(wrong, comm):
    attributes = {
        "comms": np.array(_handler.comm_numbers(comm), np.int32),
        "quantizer": np.int32(_handler.quantizer_number(Q)),
        "op": np.int32(0),
        "schedule": np.int32(0),
    }
    operands, results = [jnp.ones(3), jnp.ones(3), STATE], [jnp.ones(3), jnp.ones(3), STATE]
    if wrong == "state":
        operands = operands[:2]
    elif wrong == "dtype":
        operands[1] = jnp.ones(3, jnp.bfloat16)
    elif wrong == "result":
        results[1] = jnp.ones(2)
    elif wrong == "op":
        del attributes["op"]
    else:
        attributes[wrong] = attributes[wrong] + np.int32(10**6)
    call = jax.ffi.ffi_call(_handler.TARGET, results)
    with pytest.raises(jax.errors.JaxRuntimeError, match="INVALID_ARGUMENT: gqsgd: "):
        jax.block_until_ready(call(*operands, **attributes))


def test_equal_quantizers_have_one_number():
    twin = gqsgd.Quantizer("paper-gl8", seed=3)
    assert _handler.quantizer_number(twin) == _handler.quantizer_number(Q)
    assert _handler.quantizer_number(gqsgd.Quantizer()) != _handler.quantizer_number(Q)


STATE = gqsgd.jax.state()
