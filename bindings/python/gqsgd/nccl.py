"""The C ABI of gqsgd_nccl.h as ctypes sees it: groups of ranks with a GPU each."""

from __future__ import annotations

import ctypes
from ctypes import POINTER, c_char_p, c_int32, c_void_p
from typing import TYPE_CHECKING, Any

from . import _abi
from .arguments import integer, joined_fields, whole_id
from .errors import check
from .log import attach_logger

if TYPE_CHECKING:
    from typing_extensions import Self

PROTOTYPES: dict[str, tuple[Any, list[Any]]] = {
    "gqsgd_nccl_unique_id_create": (c_int32, [c_char_p, c_char_p]),
    "gqsgd_comm_create_nccl": (
        c_int32,
        [c_char_p, c_int32, c_int32, c_char_p, POINTER(c_void_p)],
    ),
    "gqsgd_comm_create_from_nccl": (c_int32, [c_void_p, c_char_p, POINTER(c_void_p)]),
}


def _function(name: str) -> Any:
    function = getattr(_abi.library(), name)
    function.restype, function.argtypes = PROTOTYPES[name]
    return function


def nccl_unique_id(**options: Any) -> bytes:
    """A fresh name (256 bytes) for a group over NCCL; one rank makes it and passes it to all.

    nccl=FILE: the NCCL to use; else the one of this process, GQSGD_NCCL_LIBRARY, or the system's.
    Raises Unsupported where there is none, or it is older than 2.14.
    """
    raw = ctypes.create_string_buffer(_abi.UNIQUE_ID_SIZE_BYTES)
    check(_function("gqsgd_nccl_unique_id_create")(joined_fields("", options), raw))
    return raw.raw


def _create(unique_id: bytes, rank: int, size: int, options: bytes) -> int:
    """A handle of rank `rank` of a group of `size`."""
    handle = c_void_p()
    function = _function("gqsgd_comm_create_nccl")
    check(function(unique_id, rank, size, options, ctypes.byref(handle)))
    assert handle.value is not None
    return handle.value


def _borrow(nccl_comm: int, options: bytes) -> int:
    """A handle on an ncclComm_t, given as its address."""
    handle = c_void_p()
    function = _function("gqsgd_comm_create_from_nccl")
    check(function(nccl_comm, options, ctypes.byref(handle)))
    assert handle.value is not None
    return handle.value


class NcclGroups:
    """How a communicator over NCCL is made."""

    __slots__ = ()

    def __init__(self, handle: int):
        raise NotImplementedError

    @classmethod
    def nccl(cls, unique_id: bytes, rank: int, size: int, **options: Any) -> Self:
        """Joins a group of `size` ranks, each with the GPU that is current on its thread, as rank
        `rank`; docs/NCCL.md describes such a group.

        unique_id: the bytes that `gqsgd.nccl_unique_id()` made on one of the ranks.
        Options besides the others: nccl=FILE, the NCCL to use; nccl_blocking="off", equal on all
        ranks: no thread stays behind where a group does not form, but each of NCCL's operations
        takes the host longer. Raises Unsupported without a GPU or NCCL 2.14, Timeout if a rank is
        missing.
        """
        whole = whole_id(unique_id, "what gqsgd.nccl_unique_id() returned")
        attach_logger()
        int_rank = integer("rank", rank, ctypes.c_int32)
        int_size = integer("size", size, ctypes.c_int32)
        return cls(_create(whole, int_rank, int_size, joined_fields("", options)))

    @classmethod
    def from_nccl(cls, nccl_comm: int, **options: Any) -> Self:
        """The same on an ncclComm_t, given as its address, that a framework made and destroys after
        this one; all its ranks call. It has to be of the NCCL that this process has loaded, or of
        the loaded one that the option nccl=FILE names."""
        attach_logger()
        return cls(_borrow(nccl_comm, joined_fields("", options)))
