"""One rank of test_processes.py: `jax_rank.py RANK SIZE JOB`, the unique id on standard input. What
the job returns is pickled to standard output."""

import os
import pickle
import signal
import sys

import gqsgd
import gqsgd.jax
import jax
import jax.numpy as jnp
import numpy as np
from gqsgd.network import host
from jax.sharding import Mesh, NamedSharding, PartitionSpec

TIMEOUT_MS = 60000  # ranks compile first, on a machine that may be busy
Q = gqsgd.Quantizer("paper-gl8", seed=7)


def gradients(rank):
    """A tree as a model has it, different on each rank."""
    draw = np.random.default_rng(rank)
    return {
        "bias": draw.standard_normal(10, np.float32),
        "scale": np.float32(rank + 1),
        "weight": draw.standard_normal((64, 10), np.float32),
    }


def allreduce(x, state, comm, q=Q, **options):
    return gqsgd.jax.allreduce(x, state, comm, q, **options)


def bits(comm):
    """Arrays and trees, under jit and without, of each dtype and schedule, in program order."""
    state, results = gqsgd.jax.state(step=3), []

    def add(function, x):
        nonlocal state
        y, state = function(x, state)
        results.append([np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(y)])

    def mean(x, state):
        return allreduce(x, state, comm)

    for function in (jax.jit(mean), mean):
        add(function, gradients(comm.rank))
        add(function, gradients(comm.rank)["weight"])
    for dtype in ("float16", "bfloat16"):
        add(jax.jit(mean), jnp.asarray(gradients(comm.rank)["weight"], dtype))
    with jax.enable_x64():
        add(mean, gradients(comm.rank)["weight"].astype(np.float64))
    for schedule in ("ring", "tree", "butterfly", "direct", "sparse"):
        add(
            jax.jit(lambda x, s: allreduce(x, s, comm, op="sum", schedule=schedule)),
            gradients(comm.rank)["weight"],
        )
    return results, state.tolist()


def expected_bits(comm):
    """The same by gqsgd.Communicator."""
    results, index = [], 0
    weight = gradients(comm.rank)["weight"]

    def add(method, x, **options):
        nonlocal index
        y = method(x, Q, step=3, index=index, **options)
        results.append([np.asarray(leaf).tobytes() for leaf in (y if type(x) is list else [y])])
        index += 1

    for _ in range(2):
        add(comm.allreduce_many, [np.asarray(leaf) for leaf in gradients(comm.rank).values()])
        add(comm.allreduce, weight)
    add(comm.allreduce, weight.astype(np.float16))
    add(comm.allreduce, np.asarray(jnp.asarray(weight, jnp.bfloat16)))
    add(comm.allreduce, weight.astype(np.float64))
    for schedule in ("ring", "tree", "butterfly", "direct", "sparse"):
        add(comm.allreduce, weight, op="sum", schedule=schedule)
    return results, [3, index]


def program_order(comm, threaded=True):
    """Eight calls of different sizes in one function, every other one behind a long computation:
    those are others on odd ranks, where XLA would like to run calls in another order."""

    def late(x):
        for _ in range(6):
            x = jnp.tanh(jnp.outer(x, x) @ x)
        return x

    def calls(x, state):
        results, first = [], state
        for k in range(8):
            value = (late(x) if (k + comm.rank) % 2 else x)[: 300 - 10 * k]
            y, state = allreduce(value, state if threaded else first, comm)
            results.append(y)
        return results if comm.rank % 2 else results[::-1], state

    results, state = jax.jit(calls)(jnp.ones(300), gqsgd.jax.state())
    jax.block_until_ready(results)
    return state.tolist()


def global_mesh(comm):
    """A program over the devices of all processes, which JAX joins by itself."""
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(os.environ["TEST_COORDINATOR"], comm.size, comm.rank)
    mesh, rows = Mesh(np.array(jax.devices()), ("rank",)), PartitionSpec("rank")

    def placed(x, spec):
        return jax.make_array_from_callback(x.shape, NamedSharding(mesh, spec), x.__getitem__)

    mean = jax.shard_map(
        lambda x, state: allreduce(x, state, comm),
        mesh=mesh,
        in_specs=(rows, PartitionSpec()),
        out_specs=(rows, PartitionSpec()),
    )
    x = np.stack([gradients(rank)["bias"] for rank in range(comm.size)])
    y, _ = jax.jit(mean)(placed(x, rows), placed(np.zeros(2, np.uint32), PartitionSpec()))
    result = np.asarray(y.addressable_shards[0].data).tobytes()
    jax.distributed.shutdown()
    return result, gqsgd.simulate(list(x), Q).tobytes()


def connected(comm):
    """Communicators that the program's ranks make by themselves: on one host, and as if each were
    on its own; the mean over each, and what a rank that alone asks for something else gets."""
    jax.distributed.initialize(os.environ["TEST_COORDINATOR"], comm.size, comm.rank)
    results = []
    for options in ({}, {"interface": "lo"}):
        with gqsgd.jax.connect(timeout_ms=TIMEOUT_MS, **options) as own:
            y, _ = jax.jit(lambda x, s, own=own: allreduce(x, s, own))(
                gradients(comm.rank)["bias"], gqsgd.jax.state())
            results.append((own.rank, own.transport, np.asarray(y).tobytes()))
        host.identity = lambda: [f"host {comm.rank}", "", 0, 0]
    interface = "no-such-if" if comm.rank == 1 else "lo"
    try:
        gqsgd.jax.connect(timeout_ms=TIMEOUT_MS, interface=interface)
    except gqsgd.InvalidArgument as error:
        results.append(str(error))
    jax.distributed.shutdown()
    return results


def absent_from_connect(comm):
    """Rank 1 does not call."""
    jax.distributed.initialize(os.environ["TEST_COORDINATOR"], comm.size, comm.rank)
    error = "none"
    if comm.rank == 0:
        try:
            gqsgd.jax.connect(timeout_ms=300)
        except gqsgd.Timeout as timeout:
            error = str(timeout)
    comm.allreduce(np.zeros(1, np.float32), Q)  # both stay until then
    jax.distributed.shutdown()
    return error


def without_order(comm):
    """The same with one state for all calls, so that nothing orders them."""
    comm.timeout_ms = 10000  # for ranks whose peer found the communicator busy
    return error_of(lambda: program_order(comm, threaded=False))


def refusals(comm):
    """Rank 1 has one value more, then a value that is not a number; then all agree again."""
    state, q = gqsgd.jax.state(), gqsgd.Quantizer("", nonfinite="error")
    longer = np.ones(100 + (comm.rank == 1), np.float32)
    wrong = np.full(100, np.nan if comm.rank == 1 else 1, np.float32)
    errors = [error_of(lambda: allreduce(x, state, comm, q)) for x in (longer, wrong)]
    y, _ = allreduce(np.ones(100, np.float32), state, comm, gqsgd.Quantizer("none"))
    return *errors, float(y[0])


def death(comm):
    """Rank 1 dies in the middle of a jitted function."""
    program = jax.jit(lambda x, s: allreduce(x, allreduce(x, s, comm)[1], comm))
    x, state = np.ones(1000, np.float32), gqsgd.jax.state()
    jax.block_until_ready(program(x, state))
    if comm.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return error_of(lambda: program(x, state))


def absence(comm):
    """Rank 1 never calls."""
    comm.timeout_ms = 300
    if comm.rank == 1:
        sys.stdin.buffer.read(1)  # until the end of the test closes it
        return None
    return error_of(lambda: allreduce(np.ones(10, np.float32), gqsgd.jax.state(), comm))


def error_of(function):
    """What JAX raised, when the result was asked for at the latest."""
    try:
        jax.block_until_ready(function())
    except jax.errors.JaxRuntimeError as error:
        return str(error)
    return "no error"


if __name__ == "__main__":
    rank, size, job = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    unique_id = sys.stdin.buffer.read(256)
    with gqsgd.Communicator.process(unique_id, rank, size, timeout_ms=TIMEOUT_MS) as comm:
        sys.stdout.buffer.write(pickle.dumps(globals()[job](comm)))
        sys.stdout.flush()
    os._exit(0)  # JAX complains at exit of an effect that failed, though it was raised before
