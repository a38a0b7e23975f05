"""Allreduce inside JAX programs, for processes that each run their own.

    import gqsgd, gqsgd.jax, jax

    comm = gqsgd.jax.connect()  # in a program of jax.distributed, torchrun, mpirun or srun
    q = gqsgd.Quantizer()
    state = gqsgd.jax.state()

    @jax.jit
    def mean(gradients, state):
        return gqsgd.jax.allreduce(gradients, state, comm, q)

    gradients, state = mean(gradients, state)

docs/JAX.md has the purpose of the state. Importing this needs JAX; the package itself does not.
"""

from .collective import allreduce
from .groups import connect
from .state import next_step, state

__all__ = ["allreduce", "connect", "next_step", "state"]
