"""One rank of test_mpi.py, started by mpirun; MPI itself is called through ctypes."""

import ctypes

import gqsgd
import numpy as np
import pytest
from gqsgd import _mpi


class Mpi4pyLike:
    """A communicator as mpi4py has them, as far as this package looks at it."""

    def __init__(self, handle):
        self.handle = handle

    def py2f(self):
        return self.handle


def gradient(rank):
    return np.random.default_rng(rank).standard_normal(3000, np.float32)


def check(comm, q, schedule="auto", **options):
    inputs = [gradient(rank) for rank in range(comm.size)]
    expected = gqsgd.simulate(inputs, q, schedule=schedule, step=5, **options)
    result = comm.allreduce(gradient(comm.rank), q, schedule=schedule, step=5)
    assert result.tobytes() == expected.tobytes()
    request = comm.allreduce_start(gradient(comm.rank), q, schedule=schedule, step=5)
    assert request.wait().tobytes() == expected.tobytes()


def main():
    _mpi.library()  # brings MPI with it
    mpi = ctypes.CDLL(None)
    with pytest.raises(gqsgd.Unsupported, match="not initialised.*from mpi4py import MPI"):
        gqsgd.Communicator.mpi()
    assert mpi.MPI_Init(None, None) == 0
    world = 0 if hasattr(mpi, "ompi_mpi_comm_world") else 0x44000000  # Open MPI, MPICH
    q = gqsgd.Quantizer("blocks-8", seed=3)
    for mpi_comm in (None, world, Mpi4pyLike(world)):
        with gqsgd.Communicator.mpi(mpi_comm, timeout_ms=20000) as comm:
            check(comm, q)
    with gqsgd.Communicator.mpi(timeout_ms=20000, nodes=[0, 1, 1]) as comm:
        check(comm, q, schedule="hierarchical", nodes=[0, 1, 1])
    with pytest.raises(gqsgd.InvalidArgument, match="speed"):
        gqsgd.Communicator.mpi(speed="high")
    assert mpi.MPI_Finalize() == 0


if __name__ == "__main__":
    main()
