"""gqsgd.jax.allreduce under grad, vmap, scan, checkpoint and shard_map."""

import warnings

import gqsgd
import gqsgd.jax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, PartitionSpec

Q = gqsgd.Quantizer("paper-gl8", seed=3)
EXACT = gqsgd.Quantizer("none")


def values(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


@pytest.fixture
def comms():
    """Four ranks, one for each device."""
    ranks = gqsgd.Communicator.local(4, timeout_ms=20000)
    yield ranks
    for rank in ranks:
        rank.close()


def over_devices(function, out_specs, check_vma):
    """`function(x, state)` on each device, with its row of x."""
    return jax.jit(
        jax.shard_map(
            function,
            mesh=Mesh(np.array(jax.devices("cpu")), ("rank",)),
            in_specs=(PartitionSpec("rank"), PartitionSpec()),
            out_specs=(out_specs, PartitionSpec()),
            check_vma=check_vma,
        )
    )


@pytest.mark.parametrize("check_vma", [False, True])
@pytest.mark.parametrize("out", ["each", "equal"])
def test_devices_of_a_process_are_ranks(comms, check_vma, out):
    x = values(4, 1000)
    specs = PartitionSpec("rank") if out == "each" else PartitionSpec()
    mean = over_devices(lambda x, s: gqsgd.jax.allreduce(x, s, comms, Q), specs, check_vma)
    result, state = mean(x, gqsgd.jax.state(step=3))
    expected = gqsgd.simulate(list(x), Q, step=3)
    rows = np.asarray(result)
    assert rows.shape[0] == (4 if out == "each" else 1)
    assert {row.tobytes() for row in rows} == {expected.tobytes()}
    assert state.tolist() == [3, 1]


def test_many_calls_on_devices_stay_in_order(comms):
    x = values(4, 300)

    def calls(x, state):
        total = jnp.zeros(())
        for k in range(8):
            late = jnp.tanh(jnp.outer(x, x) @ jnp.outer(x, x)).sum() if k % 2 else 0
            y, state = gqsgd.jax.allreduce(x[0, k:] + late, state, comms, Q)
            total = total + y.sum()
        return total[None], state

    totals, state = over_devices(calls, PartitionSpec("rank"), False)(x, gqsgd.jax.state())
    assert state.tolist() == [0, 8]
    assert len(set(totals.tolist())) == 1


def test_a_device_without_a_communicator_is_named():
    pair = gqsgd.Communicator.local(2, timeout_ms=20000)
    mean = over_devices(
        lambda x, s: gqsgd.jax.allreduce(x, s, pair, Q), PartitionSpec("rank"), False
    )
    with pytest.raises(jax.errors.JaxRuntimeError, match="list of 2 .* none is for device [23]"):
        jax.block_until_ready(mean(values(4, 10), gqsgd.jax.state()))


def test_more_communicators_than_devices_are_refused():
    ranks = gqsgd.Communicator.local(5)
    with pytest.raises(gqsgd.InvalidArgument, match="5 communicators for 4 devices"):
        gqsgd.jax.allreduce(values(3), gqsgd.jax.state(), ranks, Q)


def test_a_list_for_one_device_is_refused_instead_of_waited_for(comms):
    with pytest.raises(gqsgd.InvalidArgument, match=r"list of 4 .* outside of shard_map.*hint"):
        jax.jit(lambda x: gqsgd.jax.allreduce(x, gqsgd.jax.state(), comms, Q))(values(3))


def test_a_list_of_one_is_that_one_anywhere():
    [comm] = gqsgd.Communicator.local(1)
    with comm:
        results = [jax.jit(lambda x, own=own: gqsgd.jax.allreduce(x, gqsgd.jax.state(), own, Q))(
            values(3)) for own in ([comm], comm)]
        assert results[0][0].tolist() == results[1][0].tolist()


def test_pmap_takes_a_list(comms):
    x = values(4, 100)
    mean = jax.pmap(
        lambda x, s: gqsgd.jax.allreduce(x, s, comms, Q), in_axes=(0, None), out_axes=(0, None)
    )
    rows, state = mean(x, gqsgd.jax.state())
    expected = gqsgd.simulate(list(x), Q)
    assert {np.asarray(row).tobytes() for row in rows} == {expected.tobytes()}
    assert state.tolist() == [0, 1]


@pytest.mark.parametrize("check_vma", [False, True])
@pytest.mark.parametrize(("op", "share"), [("mean", 1 / 4), ("sum", 1)])
def test_the_gradient_of_what_all_ranks_go_on_with(comms, check_vma, op, share):
    def loss(x, state):
        y, state = gqsgd.jax.allreduce(x, state, comms, EXACT, op=op)
        return (y**2).sum(), state

    x = values(4, 8)
    gradient = over_devices(jax.grad(loss, has_aux=True), PartitionSpec("rank"), check_vma)
    result, state = gradient(x, gqsgd.jax.state())
    total = (x.mean(0) if op == "mean" else x.sum(0)).astype(np.float32)
    np.testing.assert_allclose(result, np.tile(2 * total * share, (4, 1)), rtol=1e-5)
    assert state.tolist() == [0, 1]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_gradients_keep_dtype_and_need_no_second_call(comm, dtype):
    calls = comm.stats()["calls"]

    def loss(tree):
        means, _ = gqsgd.jax.allreduce(tree, gqsgd.jax.state(), comm, Q)
        return (3 * means["w"]).sum() + means["b"].sum()

    tree = {"w": jnp.ones((2, 3), dtype), "b": jnp.ones(4, dtype)}
    gradient = jax.jit(jax.grad(loss))(tree)
    assert gradient["w"].dtype == dtype
    assert gradient["w"].tolist() == [[3.0] * 3] * 2
    assert gradient["b"].tolist() == [1.0] * 4
    assert comm.stats()["calls"] == calls + 1


def test_a_batch_is_one_call(comm):
    x = values(5, 100)
    mean = jax.vmap(
        lambda x, s: gqsgd.jax.allreduce(x, s, comm, Q), in_axes=(0, None), out_axes=(0, None)
    )
    calls = comm.stats()["calls"]
    y, state = jax.jit(mean)(x, gqsgd.jax.state())
    assert comm.stats()["calls"] == calls + 1
    assert state.tolist() == [0, 1]
    assert np.asarray(y).tobytes() == comm.allreduce(x, Q, step=0).tobytes()


def test_a_batch_of_states_is_refused(comm):
    mean = jax.vmap(lambda x, s: gqsgd.jax.allreduce(x, s, comm, Q))
    with pytest.raises(NotImplementedError, match="hint: in_axes=None for the state"):
        mean(values(2, 3), jnp.stack([gqsgd.jax.state()] * 2))


def test_a_loop_threads_the_state(comm):
    def body(state, x):
        y, state = gqsgd.jax.allreduce(x, state, comm, Q)
        return gqsgd.jax.next_step(state), y

    x = values(3, 50)
    state, y = jax.jit(lambda x: jax.lax.scan(body, gqsgd.jax.state(), x))(x)
    assert state.tolist() == [3, 0]
    for step in range(3):
        assert np.asarray(y[step]).tobytes() == comm.allreduce(x[step], Q, step=step).tobytes()


def captured(comm, x):
    state = gqsgd.jax.state()
    return jax.jit(lambda x: gqsgd.jax.allreduce(x, state, comm, Q))(x)


def closed_over(comm, x):
    state = gqsgd.jax.state()

    def body(total, _):
        return gqsgd.jax.allreduce(total, state, comm, Q)[0], None

    return jax.lax.scan(body, x, None, length=2)


def not_traced(comm, x):
    """The state is one of the call, whatever x is traced for."""
    state = gqsgd.jax.state()
    jax.grad(lambda x: gqsgd.jax.allreduce(x, state, comm, Q)[0].sum())(x)
    return jax.vmap(lambda x: gqsgd.jax.allreduce(x, state, comm, Q), out_axes=(0, None))(x)


def passed_on(comm, x):
    state = jax.jit(lambda x, s: gqsgd.jax.allreduce(x, s, comm, Q))(x, gqsgd.jax.state())[1]
    return jax.jit(gqsgd.jax.next_step)(state)


@pytest.mark.parametrize("is_warned_of,call", [
    (True, captured), (True, closed_over), (False, not_traced), (False, passed_on)])
def test_a_state_that_is_a_constant_of_a_program_is_warned_of(comm, is_warned_of, call):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call(comm, values(3))
    found = [each for each in caught if "state of gqsgd.jax.allreduce is a" in str(each.message)]
    assert len(found) == is_warned_of
    assert all(each.filename == __file__ for each in found)


def test_a_call_that_would_be_made_twice_is_refused(comm):
    def loss(x):
        return (gqsgd.jax.allreduce(jnp.sin(x), gqsgd.jax.state(), comm, Q)[0] ** 2).sum()

    with pytest.raises(NotImplementedError, match="checkpoint"):
        jax.jit(jax.grad(jax.checkpoint(loss)))(values(3))
