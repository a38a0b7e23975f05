"""Processes train one network with JAX, each on its part of the data; gradients are averaged in
8-bit codes inside the jitted step. `jax_data_parallel.py none` sends float32 instead.

By itself it starts four processes on this machine. Where a launcher, or docs/TWO_MACHINES.md by
hand, has put a rank into the environment it is one of several on any machines."""

import hashlib
import multiprocessing
import os
import sys

import gqsgd
import gqsgd.jax
import jax
import jax.numpy as jnp
import numpy as np

# Of torchrun and by hand, mpirun, mpiexec, srun.
RANK_VARIABLES = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")
RANK_COUNT = 4
STEP_COUNT = 200
LAYERS = (2, 64, 64, 3)
LEARNING_RATE = 0.01


def spirals(seed, count):
    """Points on three spiral arms with a little noise, and the arm of each."""
    draw = np.random.default_rng(seed)
    arm = draw.integers(3, size=count)
    radius = np.sqrt(draw.random(count))
    angle = 2 * np.pi * (arm / 3 + radius) + 0.1 * draw.standard_normal(count)
    points = radius[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return points.astype(np.float32), arm


def initial_parameters(seed):
    """Weights and biases, the same on every rank."""
    draw = np.random.default_rng(seed)
    return [
        {
            "weight": jnp.asarray(draw.standard_normal((m, n)) * np.sqrt(1 / m), jnp.float32),
            "bias": jnp.zeros(n, jnp.float32),
        }
        for m, n in zip(LAYERS, LAYERS[1:])
    ]


def scores(parameters, x):
    *hidden, last = parameters
    for layer in hidden:
        x = jnp.tanh(x @ layer["weight"] + layer["bias"])
    return x @ last["weight"] + last["bias"]


def loss(parameters, x, label):
    log_probability = jax.nn.log_softmax(scores(parameters, x))
    return -jnp.mean(jnp.take_along_axis(log_probability, label[:, None], axis=1))


def adam(parameters, gradients, moments, step):
    """One step of Adam; moments are (mean, mean of squares) of gradients so far."""
    mean = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, moments[0], gradients)
    square = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, moments[1], gradients)
    rate = LEARNING_RATE * jnp.sqrt(1 - 0.999**step) / (1 - 0.9**step)
    parameters = jax.tree.map(
        lambda p, m, v: p - rate * m / (jnp.sqrt(v) + 1e-8), parameters, mean, square
    )
    return parameters, (mean, square)


def train(comm, q):
    """Trains on this rank's part; the parameters, which end up equal on all ranks."""
    x, label = spirals(seed=1 + comm.rank, count=600)

    @jax.jit
    def train_step(parameters, moments, state):
        gradients = jax.grad(loss)(parameters, x, label)
        gradients, state = gqsgd.jax.allreduce(gradients, state, comm, q)  # the mean over ranks
        step = state[0] + 1.0
        parameters, moments = adam(parameters, gradients, moments, step)
        return parameters, moments, gqsgd.jax.next_step(state)

    parameters = initial_parameters(seed=0)
    zeros = jax.tree.map(jnp.zeros_like, parameters)
    moments, state = (zeros, zeros), gqsgd.jax.state()
    for _ in range(STEP_COUNT):
        parameters, moments, state = train_step(parameters, moments, state)
    return jax.block_until_ready(parameters)


def work_here(unique_id, rank, preset):
    """One rank of this machine's, in a process of its own."""
    work(gqsgd.Communicator.process(unique_id, rank, RANK_COUNT), preset)


def work(comm, preset):
    with comm:
        parameters = train(comm, gqsgd.Quantizer(preset))
        bytes_sent = comm.stats()["payload_bytes_sent"] // STEP_COUNT
    x, label = spirals(seed=0, count=1000)
    accuracy = np.mean(np.argmax(scores(parameters, x), axis=1) == label)
    digest = hashlib.sha256(b"".join(np.asarray(p).tobytes() for p in jax.tree.leaves(parameters)))
    print(
        f"rank {comm.rank}: accuracy {accuracy:.3f}, parameters {digest.hexdigest()[:16]}, "
        f"{bytes_sent} bytes sent per step\n",
        end="",
        flush=True,
    )


def main():
    preset = sys.argv[1] if len(sys.argv) > 1 else "blocks-8"
    if any(variable in os.environ for variable in RANK_VARIABLES):
        work(gqsgd.jax.connect(), preset)
        return 0
    context = multiprocessing.get_context("spawn")
    unique_id = gqsgd.unique_id()
    ranks = [
        context.Process(target=work_here, args=(unique_id, rank, preset))
        for rank in range(RANK_COUNT)
    ]
    for process in ranks:
        process.start()
    for process in ranks:
        process.join()
    return max(abs(process.exitcode) for process in ranks)


if __name__ == "__main__":
    raise SystemExit(main())
