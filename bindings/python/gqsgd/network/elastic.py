"""The C ABI of gqsgd_elastic.h as ctypes sees it: groups that continue with other ranks."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import POINTER, c_char_p, c_int32, c_size_t, c_void_p
from typing import TYPE_CHECKING, Any, NamedTuple

from .. import _abi
from ..arguments import integer, joined_fields, whole_id
from ..errors import check
from ..log import attach_logger, interruptible
from ..memory import HostMemory
from . import ucx

if TYPE_CHECKING:
    from typing_extensions import Self

PROTOTYPES: dict[str, tuple[Any, list[Any]]] = {
    "gqsgd_local_id_create": (c_int32, [c_char_p]),
    "gqsgd_comm_reconfigure": (
        c_int32,
        [c_void_p, c_char_p, POINTER(c_int32), c_int32, c_int32, c_char_p, POINTER(c_void_p)],
    ),
    "gqsgd_comm_revoke": (c_int32, [c_void_p, POINTER(c_int32), POINTER(c_int32)]),
    "gqsgd_comm_shrink": (
        c_int32,
        [
            *(c_void_p, c_void_p, c_size_t, c_int32, c_char_p),
            *(POINTER(c_void_p), POINTER(c_int32), POINTER(c_int32)),
        ],
    ),
}

# GQSGD_CALLS_*, from 0 on.
_CALLS = ("repeat", "finished", "repeat_finished", "differ")


def _function(name: str) -> Any:
    function = getattr(_abi.library(), name)
    function.restype, function.argtypes = PROTOTYPES[name]
    return function


def local_id() -> bytes:
    """A fresh name (256 bytes) for a group of threads of this process, for
    `Communicator.reconfigure` and `Communicator.join`."""
    raw = ctypes.create_string_buffer(_abi.UNIQUE_ID_SIZE_BYTES)
    check(_function("gqsgd_local_id_create")(raw))
    return raw.raw


class Shrunk(NamedTuple):
    """What `Communicator.shrink` returns."""

    comm: Any
    """The communicator of the survivors."""
    members: list[int]
    """The old rank of each new one."""
    calls: str
    """What this rank does about its calls: "repeat" those that failed; "finished": the first of
    them has its result in `out` by now, and the others are repeated; "repeat_finished": also the
    newest one that ended; "differ": some survivors have a result that the others cannot get."""


class ElasticGroups:
    """How a communicator continues another one, with ranks that leave and join."""

    __slots__ = ()

    _handle: int | None

    @property
    def size(self) -> int:
        raise NotImplementedError

    def __init__(self, handle: int):
        raise NotImplementedError

    @classmethod
    def _formed(cls, create: Any, *arguments: Any) -> Self:
        raise NotImplementedError

    def reconfigure(
        self, unique_id: bytes, rank: int, members: Sequence[int], **options: Any
    ) -> Self:
        """A communicator of other ranks that continues this one, which may have failed, been
        aborted, or be intact; it is still the caller's to close (docs/ELASTIC.md).

        unique_id: a fresh one, equal on all members, which decides the transport: of
            `gqsgd.unique_id()`, `gqsgd.network_id()` on the new rank 0, or `gqsgd.local_id()`.
        rank: of this process in the new group. members: of each new rank its rank in this group, or
            -1 for a newcomer, which calls `join` instead; equal on all members.
        Options as of all communicators, by default this one's, but stream_id, costs and
        uncompressed are the survivors'.

        The counter continues, at the largest of the survivors', and so do stream_id and costs:
        results are those of `simulate` with the new number of ranks at that step. Returns when all
        members are there. Raises Timeout, which names the missing ones, PeerLost, Mismatch where
        `members` differ or survivors are of two groups, and Unsupported over MPI, NCCL and custom
        transports.
        """
        # Without a handle the library takes the caller for a newcomer.
        check(_abi.library().gqsgd_comm_rank(self._handle, ctypes.byref(c_int32())))
        return self._formed(*_reconfiguration(self._handle, unique_id, rank, members, options))

    def shrink(self, out: Any = None, **options: Any) -> Shrunk:
        """A communicator of the ranks that are left, which agree without a coordinator on who goes
        on (docs/ELASTIC.md). Every rank that lives calls it; this communicator is broken from then
        on, and still the caller's to close.

        out: the output of the first call that failed here, an array or tensor in host memory, so
            that it may get the result that others have; None to leave it as it is. InvalidArgument
            where it has not the size and dtype of that call: call again, the others wait.
        Options as of `reconfigure`; `timeout_ms` is the time that ranks are waited for which are
        neither dead nor here.

        Raises Revoked where the others go on without this rank, or may do so, Busy while another
        thread is inside a call, and Unsupported over MPI, NCCL and custom transports.
        """
        place: tuple[int | None, int, int] = (None, 0, 0)
        if out is not None:
            view = HostMemory().values(out, "out", write=True)
            place = view.address, view.count, view.dtype_number
        handle, calls = c_void_p(), c_int32()
        members = (c_int32 * self.size)()
        joined = joined_fields("", ucx.with_path(options))
        results = ctypes.byref(handle), members, ctypes.byref(calls)
        try:
            with interruptible():
                check(_function("gqsgd_comm_shrink")(self._handle, *place, joined, *results))
            assert handle.value is not None
            comm = type(self)(handle.value)
        except BaseException:  # Ctrl-C, as the others go on with this rank
            _abi.library().gqsgd_comm_destroy(handle)
            raise
        return Shrunk(comm, list(members)[: comm.size], _CALLS[calls.value])

    def revoke(self) -> list[int]:
        """Breaks this communicator on all ranks, without waiting for any, and returns the ranks
        that are known to have died or to have closed theirs."""
        dead, count = (c_int32 * self.size)(), c_int32()
        with interruptible():
            check(_function("gqsgd_comm_revoke")(self._handle, dead, ctypes.byref(count)))
        return list(dead)[: count.value]

    @classmethod
    def join(cls, unique_id: bytes, rank: int, members: Sequence[int], **options: Any) -> Self:
        """Joins, as a newcomer, a group whose survivors call `reconfigure` with the same
        `unique_id` and `members`, and gets their counter, stream_id and costs."""
        attach_logger()
        return cls._formed(*_reconfiguration(None, unique_id, rank, members, options))


def _reconfiguration(
    old: int | None, unique_id: bytes, rank: int, members: Sequence[int], options: dict[str, Any]
) -> tuple[Any, ...]:
    """The function of the library that continues `old`, and its arguments."""
    whole = whole_id(unique_id, "all bytes of the id")
    numbers = [integer(f"members[{k}]", member, c_int32) for k, member in enumerate(members)]
    return (
        _function("gqsgd_comm_reconfigure"),
        old,
        whole,
        (c_int32 * max(len(numbers), 1))(*numbers),
        integer("rank", rank, c_int32),
        len(numbers),
        joined_fields("", ucx.with_path(options)),
    )
