"""The life of a communicator: made, closed, collected, refused."""

import copy
import gc
import os
import pickle
import subprocess
import sys

import gqsgd
import numpy as np
import pytest


def test_local_ranks_are_in_order():
    comms = gqsgd.Communicator.local(3)
    assert [(comm.rank, comm.size) for comm in comms] == [(0, 3), (1, 3), (2, 3)]
    assert repr(comms[1]) == "<Communicator rank 1 of 3, threads>"
    assert comms[1].transport == "threads"


@pytest.mark.parametrize("n", [0, -1, 2**31, 2**32 + 4])
def test_impossible_group_sizes_are_refused(n):
    with pytest.raises(gqsgd.InvalidArgument):
        gqsgd.Communicator.local(n)


@pytest.mark.parametrize(
    "options", [{"speed": 3}, {"timeout_ms": "soon"}, {"chunk_value_count": -1}]
)
def test_options_are_checked_by_the_library_by_name(options):
    (name,) = options
    with pytest.raises(gqsgd.InvalidArgument, match=name):
        gqsgd.Communicator.local(2, **options)


def test_options_of_other_transports_are_checked_and_ignored():
    network = {"interface": "none-such0", "address": "192.0.2.1", "port": 1, "host_id": "a"}
    for comm in gqsgd.Communicator.local(2, **network, ucx="none-such", nccl="none-such.so"):
        comm.close()
    id = gqsgd.unique_id()
    gqsgd.Communicator.process(id, 0, 1, **network).close()
    with pytest.raises(gqsgd.InvalidArgument, match="port"):
        gqsgd.Communicator.local(2, port=70000)


def test_close_is_idempotent_and_later_calls_are_refused():
    (comm,) = gqsgd.Communicator.local(1)
    comm.close()
    comm.close()
    assert repr(comm) == "<Communicator rank 0 of 1, closed>"
    for use in (comm.stats, comm.check, comm.abort, lambda: comm.counter, lambda: comm.timeout_ms):
        with pytest.raises(gqsgd.BadHandle):
            use()
    with pytest.raises(gqsgd.BadHandle):
        comm.allreduce(np.ones(8, np.float32), gqsgd.Quantizer())


def test_with_closes():
    with gqsgd.Communicator.local(1)[0] as comm:
        comm.check()
    with pytest.raises(gqsgd.BadHandle):
        comm.check()


@pytest.mark.parametrize(("handle", "kind", "sentence"), [
    (1 << 32, gqsgd.InvalidArgument, "mpi_comm is 4294967296, which does not fit 32 bits"),
    ("world", TypeError, "mpi_comm is 'world', a str; an integer is needed"),
])
def test_a_handle_of_mpi_is_not_changed_on_its_way(handle, kind, sentence):
    with pytest.raises(kind, match=sentence):
        gqsgd.Communicator.mpi(handle)


@pytest.mark.parametrize(("unique_id", "kind", "sentence"), [
    (None, TypeError, "unique_id is a NoneType, not bytes; hint: pass on what gqsgd.unique_id"),
    ("x" * 256, TypeError, "unique_id is a str, not bytes"),
    (256, TypeError, "unique_id is a int, not bytes"),
    (np.zeros(256), gqsgd.InvalidArgument, "unique_id has 2048 bytes, not 256"),
])
def test_what_is_no_id_is_refused(unique_id, kind, sentence):
    with pytest.raises(kind, match=sentence):
        gqsgd.Communicator.process(unique_id, 0, 1)


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_communicator_cannot_be_copied(duplicate):
    with gqsgd.Communicator.local(1)[0] as comm:
        with pytest.raises(TypeError, match="belongs to its process"):
            duplicate(comm)


@pytest.mark.parametrize("counter", [-1, 2**32, 2**64])
def test_the_counter_refuses_what_is_no_step(counter):
    with gqsgd.Communicator.local(1)[0] as comm:
        comm.counter = 5
        with pytest.raises(gqsgd.InvalidArgument):
            comm.counter = counter
        assert comm.counter == 5


def test_collected_communicators_free_their_descriptors():
    def descriptors():
        return len(os.listdir("/proc/self/fd"))

    gqsgd.Communicator.local(2)
    gc.collect()
    before = descriptors()
    for _ in range(50):
        gqsgd.Communicator.local(4)
    gc.collect()
    assert descriptors() == before


def test_interpreter_exit_with_live_handles_is_clean(python_environment):
    code = """
import gqsgd
comms, q = gqsgd.Communicator.local(2), gqsgd.Quantizer()
comms[0].check()
gqsgd.set_log(print, "trace")
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=python_environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_communicator_that_outlives_the_modules_is_destroyed(monkeypatch):
    """As after `import gqsgd.jax`: the interpreter has cleared modules before it gets here."""
    (comm,) = gqsgd.Communicator.local(1)
    monkeypatch.setattr(gqsgd.Communicator, "_is_finalizing", staticmethod(lambda: True))
    monkeypatch.setattr(gqsgd._abi, "library", None)
    comm.__del__()
    monkeypatch.undo()
    with pytest.raises(gqsgd.BadHandle):
        comm.check()
    comm._handle = None
