"""Communicator: one rank's end of a group of ranks. What its calls compute is in collectives/."""

from __future__ import annotations

import ctypes
import sys
from contextlib import AbstractContextManager, suppress
from typing import Any, NoReturn

import numpy as np
from numpy.typing import DTypeLike

from . import _abi, _mpi
from .arguments import STEP_MAX, c_string, config, integer, joined_fields, whole_id
from .arrays import dtype_number
from .collectives.array import ArrayCollectives
from .collectives.request import InFlight, Request
from .collectives.segments import SegmentCollectives
from .errors import GqsgdError, check
from .log import attach_logger, interruptible
from .memory import stream_for_refusal
from .nccl import NcclGroups
from .network import ElasticGroups, NetworkGroups
from .quantizer import Quantizer, handle_of
from .simulate import VerifiedGroups
from .stats import Stats
from .transport import Table, Transport


def unique_id() -> bytes:
    """A fresh name and secret (256 bytes) for a group of processes that is about to form.

    One process makes it and passes it to all, by a pipe for example. Keep it from other users:
    any process that holds it may join.
    """
    raw = ctypes.create_string_buffer(_abi.UNIQUE_ID_SIZE_BYTES)
    check(_abi.library().gqsgd_unique_id_create(raw))
    return raw.raw


class Communicator(
    ArrayCollectives, SegmentCollectives, NcclGroups, NetworkGroups, ElasticGroups, VerifiedGroups
):
    """One rank of a group; made by `local`, `process`, `network`, `from_env`, `mpi`, `nccl` or
    `custom`, and used by one thread at a time; `reconfigure` continues it with other ranks.

    Options of all, by keyword (the library checks them), equal on all ranks but for timeout_ms,
    threads and nontemporal_bytes:
        timeout_ms=300000        time without progress after which a call gives up; -1 for ever
        stream_id=0              enters the random key: groups that reduce results of others differ
        chunk_value_count=65536  values per message; where messages travel 57344, 28672 with over 4
                                 ranks, 14336 with over 8, a quarter as many floats; alters no bit
        threads=1                that compute for a rank; changes no bit, and ranks may differ
        nontemporal_bytes=0      packed codes of so many bytes get non-temporal stores where ranks
                                 share memory; 0 for never
        costs=FILE               constants by which schedule="auto" chooses, equal on all ranks:
                                 gqsgd-calibrate writes them; default: none, or GQSGD_COSTS.
                                 "measure": ranks time links and stages, at most 200 ms
        uncompressed="auto"      with costs "auto" sends float32 or bf16 where faster; or "never"
        checksum="crc32c"        of messages, default where they travel; else "off". What was
                                 changed on its way is `gqsgd.Integrity`; equal on all ranks
        nodes=[0, 0, 1, 1]       of each rank, for the hierarchical schedule; equal on all ranks.
                                 Any sequence or array of integers
    Those of networks (`network`) are ignored by other transports.

    A context manager: leaving it closes the communicator. After a failure the class of the error
    shows whether the communicator is still usable; `check` reports it again.
    """

    __slots__ = (
        *("__weakref__", "_destroy", "_handle", "_in_flight", "_table"),
        *("rank", "size", "transport"),
    )

    rank: int  #: this rank, 0 to size - 1
    size: int  #: ranks in the group
    transport: str  #: "threads", "processes", "network", "nccl", "mpi", or `name` of a Transport
    _handle: int | None
    _in_flight: InFlight
    _table: Table | None  #: of a custom transport, which the library calls until it is destroyed

    _is_finalizing = staticmethod(sys.is_finalizing)

    def __init__(self, handle: int):
        """Takes over a handle of the library; users call `local`, `process` and so on."""
        self._destroy = _abi.library().gqsgd_comm_destroy
        self._handle = handle
        self._in_flight, self._table = InFlight(), None
        self.rank = self._get("gqsgd_comm_rank", ctypes.c_int32)
        self.size = self._get("gqsgd_comm_size", ctypes.c_int32)
        name = ctypes.c_char_p()
        check(_abi.library().gqsgd_comm_transport(handle, ctypes.byref(name)))
        self.transport = (name.value or b"").decode(errors="surrogateescape")

    @classmethod
    def local(cls, n: int, **options: Any) -> list[Communicator]:
        """`n` ranks of one group inside this process, in rank order; each is used from its own
        thread (`run_local` does that)."""
        attach_logger()
        rank_count = integer("n", n, ctypes.c_int32)
        handles = (ctypes.c_void_p * max(rank_count, 1))()
        joined = joined_fields("", options)
        check(_abi.library().gqsgd_comm_create_local(rank_count, joined, handles))
        return [cls(handle) for handle in handles if handle is not None]

    @classmethod
    def process(cls, unique_id: bytes, rank: int, size: int, **options: Any) -> Communicator:
        """Joins a group of `size` processes of one user on one machine as rank `rank`.

        unique_id: the bytes that `gqsgd.unique_id()` made in one of the processes.
        Returns when all ranks are there. Raises Timeout, which names the missing ranks, Mismatch
        where sizes differ, DuplicateRank, PeerLost or Version; nothing is left behind then.
        """
        whole = whole_id(unique_id, "what gqsgd.unique_id() returned")
        attach_logger()
        numbers = integer("rank", rank, ctypes.c_int32), integer("size", size, ctypes.c_int32)
        joined = joined_fields("", options)
        create = _abi.library().gqsgd_comm_create_process
        return cls._formed(create, whole, *numbers, joined)

    @classmethod
    def mpi(cls, mpi_comm: Any = None, **options: Any) -> Communicator:
        """Joins the ranks of an MPI communicator, which all call it; needs libgqsgd_mpi.so.

        mpi_comm: a communicator of mpi4py, or any MPI communicator's Fortran handle; None is
            MPI_COMM_WORLD. It is duplicated. Close this one before MPI_Finalize. Without stream_id
            communicators of other ranks draw other random numbers.
        Raises Unsupported if MPI is not initialised (`from mpi4py import MPI` does it) or does not
        allow calls from this thread, Timeout if a rank does not call, ImportError.
        """
        attach_logger()
        return cls(_mpi.create(mpi_comm, joined_fields("", options)))

    @classmethod
    def custom(cls, transport: Transport, **options: Any) -> Communicator:
        """Joins a group over a transport of the caller's, `gqsgd.Transport`, which belongs to the
        communicator from then on. Contacts no rank yet."""
        attach_logger()
        table = Table(transport)
        comm = cls(table.create(joined_fields("", options)))
        comm._table = table
        return comm

    def _start(
        self, function: str, arguments: tuple[Any, ...], arrays: Any, result: Any
    ) -> Request:
        """Starts a collective; its arrays are kept, before Ctrl-C can come, until it has ended."""
        with self._interruptible():
            self._in_flight.free_dropped()
        handle = ctypes.c_void_p()
        self._in_flight.keep(id(handle), arrays)  # no token is as small as an address
        try:
            self._call(function, *arguments, ctypes.byref(handle))
        finally:
            if handle.value is not None:
                self._in_flight.keep(handle.value, arrays)
                request = Request(self, handle.value, result)
            self._in_flight.forget(id(handle))
        return request

    def _refuse(
        self, error: Exception, step: Any, x: Any = None, stream: Any = None
    ) -> None:
        """Takes the place of a call that this rank has refused: the other ranks get RemoteError at
        once instead of waiting. The counter advances where theirs do."""
        reason = getattr(error, "status", _abi.STATUSES["INVALID_ARGUMENT"])
        settings = config("auto", None if step is None else 0, 0)
        with suppress(GqsgdError):  # what it fails with, the next call reports
            self._call("gqsgd_comm_refuse", reason, settings, stream_for_refusal(x, stream))

    def reserve(self, q: Quantizer, value_count: int, dtype: DTypeLike = np.float32) -> None:
        """Makes workspace so that later calls of `value_count` values allocate nothing, and calls
        of fewer values little. Concerns this rank only."""
        count = integer("value_count", value_count, ctypes.c_size_t)
        self._call("gqsgd_comm_reserve", handle_of(q), count, dtype_number(dtype))

    @property
    def timeout_ms(self) -> int:
        """Time without progress, in milliseconds, after which a call gives up. Setting 0 restores
        the default (300,000), -1 waits for ever."""
        return self._get("gqsgd_comm_timeout", ctypes.c_int64)

    @timeout_ms.setter
    def timeout_ms(self, timeout_ms: int) -> None:
        number = integer("timeout_ms", timeout_ms, ctypes.c_int64)
        self._call("gqsgd_comm_set_timeout", number)

    @property
    def counter(self) -> int:
        """The step that the next call without a step will use; each such call adds one. Save it
        with a checkpoint and set it again, equal on all ranks, to resume bit for bit."""
        return self._get("gqsgd_comm_counter", ctypes.c_uint64)

    @counter.setter
    def counter(self, step: int) -> None:
        self._call("gqsgd_comm_set_counter", integer("counter", step, ctypes.c_uint64, STEP_MAX))

    def stats(self, *names: str) -> Stats:
        """This rank's counters since it was made, by name, and the ratio of compression:
        `comm.stats().ratio`, `comm.stats()["calls"]` (gqsgd.Stats has the names); with names only
        those, which costs less. For any thread at any moment, also during calls; complete once a
        call has returned."""
        return Stats(
            (name, self._get("gqsgd_comm_stat", ctypes.c_uint64, c_string("name", name)))
            for name in names or _abi.STAT_NAMES
        )

    @property
    def costs(self) -> str:
        """The constants by which schedule="auto" chooses, as the option `costs` takes them: a group
        that gets this string makes the same choices, bit for bit. "" where there are none: without
        the option, and with costs="measure" before the first call that needs them (`process`,
        `network` and `from_env` measure at once). For any thread at any moment."""
        describe, size_bytes = _abi.library().gqsgd_comm_costs, ctypes.c_size_t()
        check(describe(self._handle, None, 0, ctypes.byref(size_bytes)))
        costs = ctypes.create_string_buffer(size_bytes.value)
        check(describe(self._handle, costs, len(costs), ctypes.byref(size_bytes)))
        return costs.value.decode()

    def check(self) -> None:
        """Raises the first failure that broke this communicator; returns while it is usable."""
        self._call("gqsgd_comm_status")

    def abort(self) -> None:
        """Breaks this communicator, from any thread, without waiting: a call under way here raises
        Aborted, and so do calls of peers that are threads or processes; others time out."""
        check(_abi.library().gqsgd_comm_abort(self._handle))
        _abi.library().gqsgd_comm_status(self._handle)  # over NCCL the look that acts on it

    def close(self) -> None:
        """Frees this rank's end; waits for no rank, but up to timeout_ms for work on streams. A
        call under way in another thread raises Aborted, and so do requests in flight when they are
        waited for; every later call raises BadHandle. Closing twice is harmless."""
        handle, self._handle = self._handle, None
        self._checked(self._destroy, handle)
        self._in_flight.free_dropped()

    def __enter__(self) -> Communicator:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = self.transport if self._handle else "closed"
        return f"<Communicator rank {self.rank} of {self.size}, {state}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a communicator belongs to its process and cannot be pickled or copied")

    def __del__(self) -> None:
        # Functions are kept: at interpreter exit modules may be gone already.
        if getattr(self, "_handle", None):
            self._destroy(self._handle)
        if hasattr(self, "_in_flight") and not self._is_finalizing():
            self._in_flight.free_dropped()  # also of a closed one, whose requests came later

    def _call(self, function: str, *arguments: Any) -> None:
        self._checked(getattr(_abi.library(), function), self._handle, *arguments)

    def _checked(self, function: Any, *arguments: Any) -> None:
        """Runs what may call a custom transport."""
        if self._table is None:
            with interruptible():
                check(function(*arguments))
        else:
            self._table.checked(function, *arguments)

    def _interruptible(self) -> AbstractContextManager[Any]:
        """The context of a call of the library that calls Python back."""
        return interruptible() if self._table is None else self._table.interruptible()

    def _get(self, function: str, c_type: Any, *arguments: Any) -> int:
        result = c_type()
        check(getattr(_abi.library(), function)(self._handle, *arguments, ctypes.byref(result)))
        number: int = result.value
        return number
