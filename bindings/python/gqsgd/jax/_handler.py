"""libgqsgd_jax.so as ctypes sees it: the handlers that XLA calls, and the numbers by which programs
name communicators and quantizers. Loaded at the first use."""

from __future__ import annotations

import ctypes
import threading
import weakref
from collections.abc import Sequence
from typing import Any

import jax

from .. import _abi
from .._companion import JAX
from ..communicator import Communicator
from ..errors import InvalidArgument, NoMemory
from ..quantizer import Quantizer, handle_of

TARGET = "gqsgd_allreduce"

# Function: (result, arguments); those that XLA calls are only addresses here.
PROTOTYPES: dict[str, tuple[Any, list[Any]]] = {
    "gqsgd_jax_add": (ctypes.c_int32, [ctypes.POINTER(ctypes.c_void_p), ctypes.c_void_p]),
    "gqsgd_jax_set_devices": (
        ctypes.c_int32,
        [ctypes.c_int32, ctypes.POINTER(ctypes.c_int32), ctypes.c_int32],
    ),
}

# Kinds of devices in the order of the library's numbers for them, and what of a device of JAX XLA
# tells handlers.
_KINDS = {"cpu": "id", "cuda": "local_hardware_id"}

# What it calls, in the order of its struct.
_CALLED = (
    "gqsgd_allreduce",
    "gqsgd_allreduce_many",
    "gqsgd_comm_refuse",
    "gqsgd_last_error",
    "gqsgd_status_name",
)

_ACCEPTED = "it is a gqsgd.Communicator, or a list of one for each device of this process"

_lock = threading.RLock()
_library: ctypes.CDLL | None = None
_comms: weakref.WeakKeyDictionary[Communicator, int] = weakref.WeakKeyDictionary()
_quantizers: dict[Quantizer, int] = {}  # keeps them: a program may run at any time


def comm_numbers(comm: Communicator | Sequence[Communicator]) -> tuple[int, ...]:
    """The numbers of a communicator, or of one for each device of this process."""
    with _lock:
        if isinstance(comm, Communicator):
            return (_comm_number(comm),)
        if not isinstance(comm, (list, tuple)):
            raise TypeError(f"comm is a {type(comm).__name__}; {_ACCEPTED}")
        device_count = _set_devices()
        if not 0 < len(comm) <= device_count:
            raise InvalidArgument(
                f"comm is a list of {len(comm)} communicators for {device_count} devices; hint: "
                "one for each of them, or one communicator without a list"
            )
        return tuple(map(_comm_number, comm))


def quantizer_number(q: Quantizer) -> int:
    with _lock:
        handle = handle_of(q)
        if q not in _quantizers:
            _quantizers[q] = _add(handle)
        return _quantizers[q]


def library() -> ctypes.CDLL:
    """The loaded library, its handlers known to XLA. Raises ImportError that names every place
    tried."""
    global _library
    with _lock:
        if _library is None:
            loaded = JAX.open()
            for name, (result, arguments) in PROTOTYPES.items():
                function = getattr(loaded, name)
                function.restype, function.argtypes = result, arguments
            _register(loaded)
            _library = loaded
    return _library


def _register(loaded: ctypes.CDLL) -> None:
    handlers = {
        "cpu": loaded.gqsgd_jax_allreduce,
        "CUDA": loaded.gqsgd_jax_allreduce_on_stream,
        "ROCM": loaded.gqsgd_jax_refuse_device,
    }
    for platform, handler in handlers.items():
        jax.ffi.register_ffi_target(TARGET, jax.ffi.pycapsule(handler), platform=platform)


def _comm_number(comm: Communicator) -> int:
    if not isinstance(comm, Communicator):
        raise TypeError(f"comm holds a {type(comm).__name__}; {_ACCEPTED}")
    if comm not in _comms:
        _comms[comm] = _add(comm._handle)
    return _comms[comm]


def _add(handle: int | None) -> int:
    mine = _abi.library()
    addresses = [ctypes.cast(getattr(mine, name), ctypes.c_void_p) for name in _CALLED]
    number: int = library().gqsgd_jax_add((ctypes.c_void_p * len(_CALLED))(*addresses), handle)
    if number < 0:
        raise NoMemory("no memory to enter a handle for programs of JAX")
    return number


def _set_devices() -> int:
    """Gives the handlers the devices of this process; how many there are of the kind that has
    most of them: which kind a program is for shows when it runs."""
    count_max = 0
    for kind, (backend, number) in enumerate(_KINDS.items()):
        numbers = [getattr(device, number) for device in _devices_of(backend)]
        devices = (ctypes.c_int32 * len(numbers))(*numbers)
        if library().gqsgd_jax_set_devices(kind, devices, len(numbers)) != 0:
            raise NoMemory("no memory for the list of devices")
        count_max = max(count_max, len(numbers))
    return count_max


def _devices_of(backend: str) -> list[Any]:
    try:
        return jax.local_devices(backend=backend)
    except RuntimeError:  # JAX has no such backend here
        return []
