"""Loads libgqsgd twice, as two frameworks might that each bring one, and uses both at once.

usage: two_copies.py LIBRARY OTHER_LIBRARY
"""

import ctypes
import importlib
import os
import sys
import threading

import numpy as np

BAD_HANDLE = 3


def package_over(path):
    """A copy of the package gqsgd of its own, over the library at `path`."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "gqsgd"]:
        del sys.modules[name]
    os.environ["GQSGD_LIBRARY"] = path
    ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)  # the worst case: symbols that others may bind to
    package = importlib.import_module("gqsgd")
    assert package.library_path() == path
    return package


def address(package):
    return ctypes.cast(package._abi.library().gqsgd_version, ctypes.c_void_p).value


def gradient(rank, step):
    return np.random.default_rng([rank, step]).standard_normal(5000, np.float32)


def means(package, rank_count):
    """The bits of twenty allreduces over threads, every other one a request."""
    q = package.Quantizer("paper-gl8", seed=7)

    def work(comm):
        results = []
        for step in range(20):
            x = gradient(comm.rank, step)
            started = comm.allreduce_start(x, q) if step % 2 else None
            results.append((started.wait() if started else comm.allreduce(x, q)).tobytes())
        return b"".join(results)

    return package.run_local(rank_count, work)


def both_at_once(packages):
    found = {}

    def use(number):
        found[number] = means(packages[number], 3)

    threads = [threading.Thread(target=use, args=(number,)) for number in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found[0] == found[1]
    assert len(set(found[0])) == 1


def handles_and_errors_are_their_own(one, other):
    (comm,) = one.Communicator.local(1)
    rank = ctypes.c_int32()
    assert other._abi.library().gqsgd_comm_rank(comm._handle, ctypes.byref(rank)) == BAD_HANDLE
    before = other._abi.library().gqsgd_last_error()
    try:
        one.Quantizer("paper-gl9")
    except one.InvalidArgument as error:
        assert "paper-gl9" in str(error)
    assert other._abi.library().gqsgd_last_error() == before
    comm.close()


def calls_inside_a_copy_stay_inside(package):
    """This one makes a quantizer, runs an allreduce and reads a counter by itself."""
    q = package.Quantizer()
    errors = package.run_local(2, lambda comm: comm.measured_error(gradient(comm.rank, 0), q))
    assert 0 < errors[0] < 1


def an_abort_stays_where_it_is(one, other):
    mine, others = one.Communicator.local(1)[0], other.Communicator.local(1)[0]
    mine.abort()
    x = gradient(0, 0)
    assert others.allreduce(x, other.Quantizer("none")).tobytes() == x.tobytes()
    mine.close()
    others.close()


def one_group_of_both(one, other):
    """Ranks of one group may live in different copies, as they do in different processes."""
    unique_id, found = one.unique_id(), {}

    def join(package, rank):
        with package.Communicator.process(unique_id, rank, 2, timeout_ms=20000) as comm:
            q = package.Quantizer("paper-gl8", seed=7)
            found[rank] = comm.allreduce(gradient(rank, 0), q).tobytes()

    threads = [threading.Thread(target=join, args=each) for each in ((one, 0), (other, 1))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found[0] == found[1]


def main():
    one, other = map(package_over, sys.argv[1:])
    assert one is not other
    assert address(one) != address(other)
    handles_and_errors_are_their_own(one, other)
    both_at_once((one, other))
    for package in (one, other):
        calls_inside_a_copy_stay_inside(package)
    an_abort_stays_where_it_is(one, other)
    one_group_of_both(one, other)
    print("both work")


if __name__ == "__main__":
    main()
