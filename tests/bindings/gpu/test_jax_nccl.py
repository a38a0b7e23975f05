"""gqsgd.jax on this machine's GPUs: the bits of the host for the same states, inside programs."""

import gqsgd
import numpy as np
import pytest

COUNT = 100_000
Q = gqsgd.Quantizer("blocks-8", seed=2)


@pytest.fixture
def jax():
    jax = pytest.importorskip("jax")
    if jax.default_backend() != "gpu":
        pytest.skip("JAX finds no GPU")
    import gqsgd.jax

    jax.devices()  # loads the NCCL that the communicator shall use
    return jax


@pytest.fixture(params=["nccl", "local"])
def comm(jax, request):
    """A group of this process alone."""
    if request.param == "nccl":
        only = gqsgd.Communicator.nccl(gqsgd.nccl_unique_id(), 0, 1, timeout_ms=20000)
    else:
        (only,) = gqsgd.Communicator.local(1, timeout_ms=20000)
    with only:
        yield only


def values(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def test_an_allreduce_has_the_bits_of_the_host(jax, comm):
    mean = jax.jit(lambda x, s: gqsgd.jax.allreduce(x, s, comm, Q))
    x, state = values(COUNT), gqsgd.jax.state(7, 65533)
    for step, index in [(7, 65533), (7, 65534), (7, 65535), (8, 0), (8, 1)]:
        assert state.tolist() == [step, index]
        y, state = mean(x, state)
        assert y.devices() == {jax.devices()[0]}
        np.testing.assert_array_equal(y, gqsgd.simulate([x], Q, step=step, index=index))


def test_trees_loops_and_gradients(jax, comm):
    """Calls of one program, one after the other, with a state that no host sees."""

    def loss(tree, x):
        return ((x @ tree["w"] + tree["b"]) ** 2).sum()

    def step(carry, x):
        tree, state = carry
        gradients, state = gqsgd.jax.allreduce(jax.grad(loss)(tree, x), state, comm, Q)
        tree = jax.tree.map(lambda p, g: p - 0.001 * g, tree, gradients)
        return (tree, gqsgd.jax.next_step(state)), gradients

    tree, batches = {"b": values(64), "w": values(128, 64, seed=1)}, values(5, 32, 128, seed=2)
    train = jax.jit(lambda tree, state: jax.lax.scan(step, (tree, state), batches))
    (_, state), gradients = train(tree, gqsgd.jax.state(3))
    (_, _), again = train(tree, gqsgd.jax.state(3))
    assert state.tolist() == [8, 0]
    for one, other in zip(jax.tree.leaves(gradients), jax.tree.leaves(again)):
        np.testing.assert_array_equal(one, other)
    exact = jax.grad(loss)(tree, batches[0])
    for name in tree:
        given = np.asarray(exact[name])
        error = np.linalg.norm(np.asarray(gradients[name][0]) - given) / np.linalg.norm(given)
        assert 0 < error < 0.03


def test_devices_of_a_process_are_ranks(jax):
    size = jax.local_device_count()
    if size < 2:
        pytest.skip("this machine has one GPU")
    comms, x = gqsgd.Communicator.local(size, timeout_ms=20000), values(size, COUNT)
    rank, every = jax.sharding.PartitionSpec("rank"), jax.sharding.PartitionSpec()
    mean = jax.jit(jax.shard_map(
        lambda x, s: gqsgd.jax.allreduce(x, s, comms, Q), mesh=jax.make_mesh((size,), ("rank",)),
        in_specs=(rank, every), out_specs=(rank, every), check_vma=False))
    state = gqsgd.jax.state(5)
    for index in range(3):
        y, state = mean(x, state)
        expected = gqsgd.simulate(list(x), Q, step=5, index=index)
        np.testing.assert_array_equal(y, np.tile(expected, (size, 1)))
    jax.block_until_ready(state)
    for comm in comms:
        comm.close()
