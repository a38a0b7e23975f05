"""libgqsgd_mpi.so as ctypes sees it: communicators over MPI. Loaded at the first use."""

from __future__ import annotations

import ctypes
import threading
from typing import Any

from ._companion import MPI
from .arguments import integer
from .errors import Unsupported, check

# Function: its arguments; all return a status.
PROTOTYPES: dict[str, list[Any]] = {
    "gqsgd_comm_create_mpi_f": [
        ctypes.c_int32,
        ctypes.c_char_p,
        ctypes.POINTER(ctypes.c_void_p),
    ],
    "gqsgd_comm_create_mpi_world": [ctypes.c_char_p, ctypes.POINTER(ctypes.c_void_p)],
}

_HINT = "`from mpi4py import MPI` (pip install mpi4py) does it"

_lock = threading.Lock()
_library: ctypes.CDLL | None = None


def create(mpi_comm: Any, options: bytes) -> int:
    """A handle of a communicator over `mpi_comm`: None is MPI_COMM_WORLD, an int a Fortran handle,
    anything else an object of mpi4py."""
    handle = ctypes.c_void_p()
    if mpi_comm is None:
        try:
            check(library().gqsgd_comm_create_mpi_world(options, ctypes.byref(handle)))
        except Unsupported as error:
            hint = f"; hint: {_HINT}" if "not initialised" in str(error) else ""
            raise Unsupported(f"{error}{hint}") from None
    else:
        given = mpi_comm.py2f() if hasattr(mpi_comm, "py2f") else mpi_comm
        number = integer("mpi_comm", given, ctypes.c_int32)
        check(library().gqsgd_comm_create_mpi_f(number, options, ctypes.byref(handle)))
    assert handle.value is not None
    return handle.value


def library() -> ctypes.CDLL:
    """The loaded library. Raises ImportError that names every place tried."""
    global _library
    with _lock:
        if _library is None:
            loaded = MPI.open()
            for name, arguments in PROTOTYPES.items():
                function = getattr(loaded, name)
                function.restype, function.argtypes = ctypes.c_int32, arguments
            _library = loaded
    return _library
