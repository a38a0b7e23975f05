"""The C ABI of gqsgd_transport.h as ctypes sees it, and the creation of custom communicators."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from ctypes import CFUNCTYPE, POINTER, c_char_p, c_int32, c_size_t, c_uint64, c_void_p
from typing import Any

from . import _abi
from .errors import check

# Addresses arrive as integers, places for results as pointers.
Send = CFUNCTYPE(c_int32, c_void_p, c_int32, c_void_p, c_size_t, POINTER(c_uint64))
Receive = Send
Test = CFUNCTYPE(c_int32, c_void_p, c_uint64, POINTER(c_int32), POINTER(c_size_t))
Progress = CFUNCTYPE(c_int32, c_void_p, c_int32)
Close = CFUNCTYPE(c_int32, c_void_p)
ErrorText = CFUNCTYPE(c_void_p, c_void_p, c_int32)  # an address: ctypes cannot return a c_char_p
Allgather = CFUNCTYPE(c_int32, c_void_p, c_void_p, c_void_p, c_size_t, POINTER(c_uint64))
Allreduce = CFUNCTYPE(c_int32, c_void_p, c_int32, c_void_p, c_size_t, POINTER(c_uint64))


class TransportStruct(ctypes.Structure):
    """gqsgd_transport: fields are only ever added at its end."""

    _fields_ = [
        ("struct_size_bytes", c_size_t),
        ("user", c_void_p),
        ("rank", c_int32),
        ("size", c_int32),
        ("node_ids", POINTER(c_int32)),
        ("send", Send),
        ("receive", Receive),
        ("test", Test),
        ("progress", Progress),
        ("close", Close),
        ("error_text", ErrorText),
        ("allgather", Allgather),
        ("allreduce", Allreduce),
        ("name", c_char_p),
    ]


PROTOTYPES: dict[str, tuple[Any, list[Any]]] = {
    "gqsgd_comm_create_custom": (
        c_int32,
        [POINTER(TransportStruct), c_char_p, POINTER(c_void_p)],
    ),
    "gqsgd_fail": (c_int32, [c_int32, c_char_p]),
}


def create(rank: int, size: int, fields: Mapping[str, Any], options: bytes) -> int:
    """A handle of a communicator over a table with these functions, which must outlive it."""
    table = TransportStruct(
        struct_size_bytes=ctypes.sizeof(TransportStruct), rank=rank, size=size, **fields
    )
    handle = c_void_p()
    function = _abi.library().gqsgd_comm_create_custom
    function.restype, function.argtypes = PROTOTYPES["gqsgd_comm_create_custom"]
    check(function(ctypes.byref(table), options, ctypes.byref(handle)))
    assert handle.value is not None
    return handle.value
