"""The C ABI of gqsgd.h, gqsgd_stages.h, gqsgd_model.h and gqsgd_log.h as ctypes sees it, and the
loading of the library."""

from __future__ import annotations

import ctypes
import errno
import os
import sysconfig
import threading
from ctypes import POINTER, c_char_p, c_double, c_int32, c_int64, c_size_t, c_uint64, c_void_p
from pathlib import Path
from typing import Any

VERSION = (0, 1, 0)
SONAME = "libgqsgd.so.0"
UNIQUE_ID_SIZE_BYTES = 256

STATUSES: dict[str, int] = {
    "OK": 0,
    "INVALID_ARGUMENT": 1,
    "UNSUPPORTED": 2,
    "BAD_HANDLE": 3,
    "BUSY": 4,
    "FORKED": 5,
    "NO_MEMORY": 20,
    "NO_RESOURCE": 21,
    "SYSTEM": 22,
    "BACKEND": 23,
    "MISMATCH": 40,
    "VERSION": 41,
    "REMOTE_ERROR": 42,
    "DUPLICATE_RANK": 43,
    "TIMEOUT": 60,
    "PEER_LOST": 61,
    "ABORTED": 62,
    "REVOKED": 63,
    "PROTOCOL": 64,
    "INTEGRITY": 65,
    "NONFINITE": 80,
    "OVERFLOW": 81,
    "INTERNAL": 99,
}

# The enumerations, under the names that Python callers use.
DTYPES: dict[str, int] = {"float32": 0, "float16": 1, "bfloat16": 2, "float64": 3}
OPS: dict[str, int] = {"sum": 0, "mean": 1}
SCHEDULES: dict[str, int] = {
    "auto": 0,
    "ring": 1,
    "tree": 2,
    "butterfly": 3,
    "direct": 4,
    "hierarchical": 5,
    "native": 6,
    "sparse": 7,
}

STEP_SOURCES: dict[str, int] = {"counter": 0, "given": 1, "device": 2}
LOG_LEVELS: dict[str, int] = {"none": 0, "warn": 1, "info": 2, "trace": 3}

# The counters that gqsgd_comm_stat knows.
STAT_NAMES: tuple[str, ...] = (
    "calls",
    "messages_sent",
    "header_bytes_sent",
    "payload_bytes_sent",
    "uncompressed_bytes_sent",
    "payload_bytes_copied",
    "wait_ns",
    "workspace_bytes",
    "nonfinite_blocks",
    "native_float_calls",
)


class ConfigStruct(ctypes.Structure):
    """gqsgd_config, begun as GQSGD_CONFIG_INIT does; fields are only ever added at its end."""

    _fields_ = [
        ("size_bytes", c_size_t),
        ("schedule", c_int32),
        ("step_source", c_int32),
        ("step", c_uint64),
        ("index", c_uint64),
        ("device_step", c_void_p),
    ]

    def __init__(
        self, schedule: int = 0, step_source: int = 0, step: int = 0, index: int = 0,
        device_step: int | None = None,
    ):
        size_bytes = ctypes.sizeof(ConfigStruct)
        super().__init__(size_bytes, schedule, step_source, step, index, device_step)
        self.kept: Any = None  #: owns the memory at device_step


class SiteStruct(ctypes.Structure):
    """gqsgd_site, whose layout never changes."""

    _fields_ = [
        ("rank", c_uint64),
        ("size", c_uint64),
        ("reduction_depth", c_uint64),
        ("step", c_uint64),
        ("index", c_uint64),
        ("first_value", c_uint64),
        ("hop", c_uint64),
        ("weight_a", c_uint64),
        ("weight_b", c_uint64),
    ]


LogCallback = ctypes.CFUNCTYPE(None, c_void_p, c_int32, c_char_p)

# Short names that keep one prototype on one line. Handles are tokens and numeric arrays are
# addresses, so that both are plain integers here; a unique id is its 256 bytes.
_status = _int = _dtype = _op = _schedule = _level = c_int32
_string = _unique_id = c_char_p
_size = c_size_t
_comm = _quantizer = _request = _address = _stream = c_void_p
_site = POINTER(SiteStruct)
_config = POINTER(ConfigStruct)
_addresses = POINTER(c_void_p)
_sizes = POINTER(c_size_t)
_number = POINTER(c_double)
_out = POINTER(c_void_p)  # where a handle goes

_ALLREDUCE = [_comm, _quantizer, _address, _address, _size, _dtype, _op, _config, _stream]
_ALLREDUCE_MANY = [_comm, _quantizer, _addresses, _addresses, _sizes, _size, _dtype, _op, _config]
_ALLREDUCE_MANY += [_stream]
_REDUCE_SCATTER = [_comm, _quantizer, _address, _address, _sizes, _dtype, _op, _config, _stream]
_ALLGATHER = [_comm, _quantizer, _address, _address, _sizes, _dtype, _config, _stream]

# Function: (result, arguments), in the headers' order.
PROTOTYPES: dict[str, tuple[Any, list[Any]]] = {
    "gqsgd_status_name": (_string, [_status]),
    "gqsgd_status_string": (_string, [_status]),
    "gqsgd_last_error": (_string, []),
    "gqsgd_version": (_int, []),
    "gqsgd_build_info": (_string, []),
    "gqsgd_quantizer_create": (_status, [_string, _out]),
    "gqsgd_quantizer_describe": (_status, [_quantizer, _string, _size, _sizes]),
    "gqsgd_quantizer_destroy": (_status, [_quantizer]),
    "gqsgd_comm_create_local": (_status, [_int, _string, _out]),
    "gqsgd_unique_id_create": (_status, [_unique_id]),
    "gqsgd_comm_create_process": (_status, [_unique_id, _int, _int, _string, _out]),
    "gqsgd_comm_rank": (_status, [_comm, POINTER(c_int32)]),
    "gqsgd_comm_size": (_status, [_comm, POINTER(c_int32)]),
    "gqsgd_comm_transport": (_status, [_comm, POINTER(c_char_p)]),
    "gqsgd_comm_set_timeout": (_status, [_comm, c_int64]),
    "gqsgd_comm_timeout": (_status, [_comm, POINTER(c_int64)]),
    "gqsgd_comm_set_counter": (_status, [_comm, c_uint64]),
    "gqsgd_comm_counter": (_status, [_comm, POINTER(c_uint64)]),
    "gqsgd_comm_reserve": (_status, [_comm, _quantizer, _size, _dtype]),
    "gqsgd_comm_stat": (_status, [_comm, _string, POINTER(c_uint64)]),
    "gqsgd_comm_costs": (_status, [_comm, _string, _size, _sizes]),
    "gqsgd_comm_status": (_status, [_comm]),
    "gqsgd_comm_abort": (_status, [_comm]),
    "gqsgd_comm_destroy": (_status, [_comm]),
    "gqsgd_allreduce": (_status, _ALLREDUCE),
    "gqsgd_allreduce_many": (_status, _ALLREDUCE_MANY),
    "gqsgd_reduce_scatter": (_status, _REDUCE_SCATTER),
    "gqsgd_allgather": (_status, _ALLGATHER),
    "gqsgd_comm_refuse": (_status, [_comm, _status, _config, _stream]),
    "gqsgd_allreduce_start": (_status, [*_ALLREDUCE, _out]),
    "gqsgd_allreduce_many_start": (_status, [*_ALLREDUCE_MANY, _out]),
    "gqsgd_reduce_scatter_start": (_status, [*_REDUCE_SCATTER, _out]),
    "gqsgd_allgather_start": (_status, [*_ALLGATHER, _out]),
    "gqsgd_request_test": (_status, [_request, POINTER(c_int32)]),
    "gqsgd_request_wait": (_status, [_request]),
    # gqsgd_stages.h
    "gqsgd_packed_size": (_status, [_quantizer, _size, _sizes]),
    "gqsgd_result_size": (_status, [_quantizer, _size, _sizes]),
    "gqsgd_norm_count": (_status, [_quantizer, _size, _sizes]),
    "gqsgd_workspace_size": (_status, [_quantizer, _size, _dtype, _sizes]),
    "gqsgd_norm": (
        _status,
        [_quantizer, _site, _address, _size, _dtype, _address, _address, _size, _stream],
    ),
    "gqsgd_quantize": (
        _status,
        [_quantizer, _site, _address, _size, _dtype, _address, _address, _address, _size, _stream],
    ),
    "gqsgd_reduce": (_status, [_quantizer, _site, _address, _address, _size, _stream]),
    "gqsgd_reduce_many": (
        _status,
        [_quantizer, _site, _addresses, _size, _address, _address, _address, _address, _size]
        + [_stream],
    ),
    "gqsgd_dequantize": (
        _status,
        [_quantizer, _site, _address, _address, _size, _dtype, _op, _address, _stream],
    ),
    "gqsgd_widths": (_status, [_quantizer, _site, _address, _size, _address, _stream]),
    "gqsgd_dequantize_adaptive": (
        _status,
        [_quantizer, _site, _address, _address, _address, _size, _dtype, _op, _address, _stream],
    ),
    "gqsgd_rice_groups": (_status, [_quantizer, _site, _size, _sizes, _sizes, _sizes]),
    "gqsgd_reduce_rice": (
        _status,
        [_quantizer, _site, _addresses, _size, _size, _size, _address, _address, _size, _stream],
    ),
    # gqsgd_model.h
    "gqsgd_variance_bound": (_status, [_quantizer, _int, _size, _schedule, _number]),
    "gqsgd_sparsity_bound": (_status, [_quantizer, _int, _size, _schedule, _number]),
    "gqsgd_depth_factor": (_status, [_quantizer, _int, _schedule, _number]),
    "gqsgd_predict_time": (
        _status,
        [_quantizer, _schedule, _int, _size, _dtype, _string, _number],
    ),
    "gqsgd_simulate": (
        _status,
        [_quantizer, _int, _addresses, _addresses, _size, _dtype, _op, _config, _string],
    ),
    "gqsgd_expected_error": (
        _status,
        [_quantizer, _int, _addresses, _size, _dtype, _config, _int, _string, _number],
    ),
    "gqsgd_measured_error": (
        _status,
        [_comm, _quantizer, _address, _size, _dtype, _config, _number],
    ),
    "gqsgd_comm_verify": (_status, [_comm, _int, POINTER(c_int32), POINTER(c_int32)]),
    # gqsgd_log.h
    "gqsgd_set_log": (None, [_level, LogCallback, c_void_p]),
}

# Names of wheels with this package (tools/build_wheel): theirs are the folders of their libraries.
WHEELS = ("gqsgd", "gqsgd_cu13", "gqsgd_cu12")

_lock = threading.Lock()
_library: ctypes.CDLL | None = None


def library() -> ctypes.CDLL:
    """The loaded library, every prototype set. Loaded at the first use, so that importing the
    package needs none. Raises ImportError that names every place tried; a later use tries again.
    """
    global _library
    if _library is None:
        with _lock:
            if _library is None:
                _library = _prepared(_opened())
    return _library


def library_path() -> str:
    """The file that the library was loaded from, as the dynamic loader knows it."""
    info = (c_void_p * 4)()  # Dl_info; its first member is the file's name
    ctypes.CDLL(None).dladdr(ctypes.cast(library().gqsgd_version, c_void_p), info)
    return os.fsdecode(ctypes.string_at(info[0])) if info[0] else library()._name


def _opened() -> ctypes.CDLL:
    """GQSGD_LIBRARY alone where it is set: a wrong path must not quietly become another library.
    Otherwise the first file beside the package, otherwise what the dynamic loader finds."""
    named = os.environ.get("GQSGD_LIBRARY")
    if named:
        return _open(named, [f"GQSGD_LIBRARY={named}"])
    tried = ["GQSGD_LIBRARY: not set"]
    for folder in _folders():
        for file in sorted(folder.glob("libgqsgd.so*")):
            return _open(str(file), tried)
        tried.append(f"{folder}/libgqsgd.so*: no such file")
    return _open(SONAME, tried)


def _folders() -> list[Path]:
    """Where a wheel puts the library: beside the package, or inside it."""
    package = Path(__file__).resolve().parent
    sites = [package.parent, Path(sysconfig.get_path("platlib"))]
    folders = [site / f".{wheel}.mesonpy.libs" for wheel in WHEELS for site in sites]
    return list(dict.fromkeys([*folders, package]))


def load(name: str, mode: int = ctypes.DEFAULT_MODE) -> ctypes.CDLL:
    """ctypes.CDLL, which would wait for a writer where a path names a FIFO, and which says "No such
    file" of one for another architecture. Raises OSError."""
    if "/" in name and os.path.exists(name) and not os.path.isfile(name):
        raise OSError(f"{name} is not a regular file")
    try:
        return ctypes.CDLL(name, mode=mode)
    except OSError as error:
        missing = str(error).startswith(f"{name}: ") and os.strerror(errno.ENOENT) in str(error)
        if missing and "/" in name and os.path.isfile(name):
            raise OSError(
                f"{name} is for another architecture than {os.uname().machine}"
            ) from None
        raise


def _open(name: str, tried: list[str]) -> ctypes.CDLL:
    try:
        return load(name)
    except OSError as error:
        places = "\n  ".join(tried + [f"{name}: {error}"])
        raise ImportError(
            f"libgqsgd could not be loaded. Tried, in this order:\n  {places}\n"
            "Set GQSGD_LIBRARY to the library of a build, as in <build>/libgqsgd.so.",
            name="gqsgd",
            path=name,
        ) from error


def _prepared(loaded: ctypes.CDLL) -> ctypes.CDLL:
    """Sets every prototype once; refuses a library that this package was not written for."""
    for name, (result, arguments) in PROTOTYPES.items():
        try:
            function = getattr(loaded, name)
        except AttributeError:
            raise _refusal(loaded, f"has no {name}") from None
        function.restype, function.argtypes = result, arguments
    found = loaded.gqsgd_version()
    if found // 10000 != VERSION[0]:
        raise _refusal(loaded, f"is version {found // 10000}.{found // 100 % 100}.{found % 100}")
    return loaded


def _refusal(loaded: ctypes.CDLL, reason: str) -> ImportError:
    return ImportError(
        f"{loaded._name} {reason}: it is not the libgqsgd of this package, which is "
        f"{'.'.join(map(str, VERSION))}. Set GQSGD_LIBRARY to a matching one.",
        name="gqsgd",
        path=loaded._name,
    )
