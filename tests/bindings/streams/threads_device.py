"""The device of threads as a package of arrays: what CuPy is on a GPU, as far as tests need it."""

import contextlib
import ctypes
import os
import threading
import weakref

import gqsgd
import numpy as np
from gqsgd import _abi

_library = ctypes.CDLL(os.environ["GQSGD_LIBRARY"])
_nccl = ctypes.CDLL(os.environ["GQSGD_NCCL_LIBRARY"])
for _name in ("allocate", "default_stream", "make_stream", "handle", "begin_capture"):
    getattr(_library, f"threads_{_name}").restype = ctypes.c_void_p
_nccl.stand_in_default_stream(ctypes.c_void_p(_library.threads_default_stream()))


def comms_in_use():
    """Communicators of the stand-in that were made and not destroyed."""
    return _nccl.stand_in_comms()


class Stream:
    """A stream, as the protocol of CUDA's Python packages has it."""

    def __init__(self):
        self.pointer = ctypes.c_void_p(_library.threads_make_stream())
        weakref.finalize(self, _library.threads_end_stream, self.pointer)

    def __cuda_stream__(self):
        return 0, _library.threads_handle(self.pointer)

    def synchronize(self):
        assert _library.threads_synchronize(self.pointer, 20000), "the stream does not get there"

    def sleep(self, time_ms):
        _library.threads_sleep(self.pointer, time_ms)

    def copy(self, to, values):
        """Puts values into an array when the stream gets there; `values` is a NumPy array that
        stays as it is until then."""
        assert to.host.nbytes == values.nbytes
        _library.threads_copy(self.pointer, ctypes.c_void_p(to.host.ctypes.data),
                              ctypes.c_void_p(values.ctypes.data), ctypes.c_size_t(values.nbytes))

    def add(self, numbers, addend):
        """Adds to an array of int64 when the stream gets there, as a kernel of the program does."""
        assert numbers.dtype == np.int64
        _library.threads_add(self.pointer, ctypes.c_void_p(numbers.ctypes.data),
                             ctypes.c_size_t(numbers.size), ctypes.c_int64(addend))

    def wait_stream(self, other):
        _library.threads_order(self.pointer, other.pointer)

    def is_capturing(self):
        return bool(_library.threads_is_capturing(self.pointer))


class Graph:
    """A graph of what this thread enqueues on a stream inside `with graph.capture(stream)`, and on
    streams that wait for it; `replay` executes it. `end()` comes before that of communicators
    whose calls it has."""

    def __init__(self):
        self.pointer, self.end = None, lambda: None

    @contextlib.contextmanager
    def capture(self, stream):
        self.pointer = ctypes.c_void_p(_library.threads_begin_capture(stream.pointer))
        self.end = weakref.finalize(self, _library.threads_end_graph, self.pointer)
        is_whole = False
        try:
            yield
        finally:
            is_whole = _library.threads_end_capture(self.pointer, stream.pointer)
        assert is_whole, "work of another stream has not come back"

    def replay(self, stream):
        _library.threads_replay(self.pointer, stream.pointer)


class Array:
    """An array in memory of the device; `host` shows it, whether its streams are done or not. Its
    end is not in the order of streams: keep it until they are."""

    def __init__(self, shape, dtype):
        self.host = memory(shape, np.dtype(dtype))

    @property
    def __cuda_array_interface__(self):
        return {"shape": self.host.shape, "typestr": self.host.dtype.str, "version": 3,
                "data": (self.host.ctypes.data, False)}


def memory(shape, dtype):
    """A NumPy array over fresh memory of the device."""
    size_bytes = int(np.prod(shape)) * dtype.itemsize
    address = ctypes.c_void_p(_library.threads_allocate(ctypes.c_size_t(size_bytes)))
    block = (ctypes.c_ubyte * size_bytes).from_address(address.value)
    weakref.finalize(block, _library.threads_release, address)
    return np.frombuffer(block, dtype).reshape(shape)


def empty(shape, dtype):
    return Array(shape, dtype)


def array(values):
    new = Array(values.shape, values.dtype)
    new.host[...] = values
    return new


def on_ranks(size, work):
    """`work(rank)` on a thread for each rank; results in rank order. A failure is raised here."""
    results, failures = [None] * size, []

    def run(rank):
        try:
            results[rank] = work(rank)
        except BaseException as error:
            failures.append((rank, error))

    threads = [threading.Thread(target=run, args=(rank,), daemon=True) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive(), f"no end; failures so far: {failures}"
    if failures:
        raise failures[0][1]
    return results


def nccl_ranks(size, work, **options):
    """`work(comm, stream)` on every rank of a group over the stand-in of NCCL."""
    unique_id = gqsgd.nccl_unique_id()

    def run(rank):
        with gqsgd.Communicator.nccl(unique_id, rank, size, timeout_ms=20000, **options) as comm:
            stream = Stream()
            result = work(comm, stream)
            stream.synchronize()
        return result

    return on_ranks(size, run)


assert _abi.library_path() == os.environ["GQSGD_LIBRARY"]
