"""The C ABI of gqsgd_network.h as ctypes sees it: groups between machines, and groups that
torchrun, mpirun or srun has started."""

from __future__ import annotations

import ctypes
from ctypes import POINTER, c_char_p, c_int32, c_void_p
from typing import TYPE_CHECKING, Any

from .. import _abi
from ..arguments import integer, joined_fields, whole_id
from ..errors import check
from ..interrupt import formed
from ..log import attach_logger
from . import ucx

if TYPE_CHECKING:
    from typing_extensions import Self

PROTOTYPES: dict[str, tuple[Any, list[Any]]] = {
    "gqsgd_network_id_create": (c_int32, [c_char_p, c_char_p]),
    "gqsgd_comm_create_network": (
        c_int32,
        [c_char_p, c_int32, c_int32, c_char_p, POINTER(c_void_p)],
    ),
    "gqsgd_comm_create_env": (c_int32, [c_char_p, POINTER(c_void_p)]),
}


def _function(name: str) -> Any:
    function = getattr(_abi.library(), name)
    function.restype, function.argtypes = PROTOTYPES[name]
    return function


def network_id(**options: Any) -> bytes:
    """A fresh name, secret and address (256 bytes) for a group between machines. The process that
    makes it is rank 0, and listens at the address from then on, until the group has formed.

    interface=NAME: the network interface whose address that is; or address=HOST. By default
    GQSGD_INTERFACE or GQSGD_ADDRESS of the environment, else the first interface that is up and no
    loopback. port=N: any free one by default.
    Pass the bytes to all ranks by a channel that no other user can read. Raises InvalidArgument for
    an address that no other machine reaches, NoResource for a port in use.
    """
    raw = ctypes.create_string_buffer(_abi.UNIQUE_ID_SIZE_BYTES)
    check(_function("gqsgd_network_id_create")(joined_fields("", options), raw))
    return raw.raw


class NetworkGroups:
    """How a communicator between machines is made."""

    __slots__ = ()

    def __init__(self, handle: int):
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError

    @classmethod
    def network(cls, unique_id: bytes, rank: int, size: int, **options: Any) -> Self:
        """Joins a group of `size` processes on any machines as rank `rank`. Codes travel over UCX;
        docs/TWO_MACHINES.md has whole programs. Arrays are in host memory.

        unique_id: the bytes that `gqsgd.network_id()` made in the process of rank 0.
        Options besides the others: interface=NAME or address=HOST, at which the others reach this
        process; host_id=NAME, equal for ranks of one node; paths=N, connections of UCX to each
        other rank, for links that one does not fill; ucx=FILE, the UCX to use, by default what this
        process has loaded, GQSGD_UCX_LIBRARY, pip's libucx, or the system's.
        Returns when all ranks are there. Raises Unsupported without UCX, Timeout, which names the
        missing ranks, Mismatch where sizes differ, DuplicateRank, PeerLost or Version; nothing is
        left behind then.
        """
        whole = whole_id(unique_id, "what gqsgd.network_id() returned on rank 0")
        attach_logger()
        numbers = integer("rank", rank, c_int32), integer("size", size, c_int32)
        joined = joined_fields("", ucx.with_path(options))
        create = _function("gqsgd_comm_create_network")
        return cls._formed(create, whole, *numbers, joined)

    @classmethod
    def from_env(cls, **options: Any) -> Self:
        """Joins the group that torchrun, mpirun, mpiexec or srun has started, of which it reads the
        environment: rank, size and the address of rank 0 (docs/TRANSPORTS.md has the variables).

        Processes of one user on one machine get the transport of `process`, others that of
        `network`, with its options. GQSGD_SECRET, equal on all ranks, keeps other processes out.
        Raises what these raise, and InvalidArgument with the variable that is missing or wrong.
        """
        attach_logger()
        joined = joined_fields("", ucx.with_path(options))
        return cls._formed(_function("gqsgd_comm_create_env"), joined)

    @classmethod
    def _formed(cls, create: Any, *arguments: Any) -> Self:
        """What a function of the library creates, which waits for other ranks."""

        def join() -> Self:
            handle = c_void_p()
            check(create(*arguments, ctypes.byref(handle)))
            assert handle.value is not None
            return cls(handle.value)

        return formed(join)
