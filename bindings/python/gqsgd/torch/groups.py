"""Communicators of torch process groups: which transport, and the rendezvous of the ranks."""

from __future__ import annotations

import logging
import os
import threading
import uuid
import weakref
from collections.abc import Iterable, Mapping
from datetime import timedelta
from functools import partial
from typing import Any, NamedTuple

import torch
import torch.distributed as dist

import gqsgd
from gqsgd.arguments import sequence
from gqsgd.network import host
from gqsgd.network.agreement import NetworkGroup

from . import devices
from .group_transport import GroupTransport
from .liveness import Liveness, WatchedStore
from .rendezvous import Report, rendezvous, duration_of

TRANSPORTS = ("auto", "process", "network", "group", "nccl")

_LOGGER = logging.getLogger("gqsgd")


class _Shared:
    """The communicators of a group that functions without a state use, by device. Its lock is its
    own: threads of two ranks may make those of two groups in different orders."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.comms: dict[torch.device, gqsgd.Communicator] = {}


_lock = threading.Lock()
_shared: weakref.WeakKeyDictionary[dist.ProcessGroup, _Shared] = weakref.WeakKeyDictionary()


class Member(NamedTuple):
    """This process in a process group."""

    group: dist.ProcessGroup
    rank: int
    size: int
    store: dist.Store


def connect(
    group: dist.ProcessGroup | None,
    transport: str = "auto",
    *,
    device: torch.device | str | None = None,
    **options: Any,
) -> gqsgd.Communicator:
    """Makes a communicator of the ranks of `group` (None: the default group), which all call it.

    transport: "process" for ranks of one machine, through shared memory, or between GPUs by kernels
        that read from each other (docs/CUDA.md); "network" over UCX, for ranks of any machines;
        "group" through sends and receives of a Gloo group of its own; "nccl" between GPUs, by an
        NCCL communicator of its own. "auto" is "nccl" for a GPU; otherwise "process" where all
        ranks are of one user and see one machine and network namespace, else "network". Where a
        rank has no UCX it is "group" on all, which the log says.
    device: where the tensors will be; None is the CPU, or with "nccl" the current GPU.
    options: those of gqsgd.Communicator, and of gqsgd.Communicator.network; `stream_id` is by
        default `stream_of(group)`, with which a hook in this group draws as well: calls beside its
        own need another, or another seed. `timeout_ms` is the process group's timeout, unless
        GQSGD_TIMEOUT_MS is set. Where rank 0 listens in a network: `interface` or `address`,
        else what GLOO_SOCKET_IFNAME names, else the address by which it reaches the store of the
        group.

    The ranks agree through the store of the group, which is not used afterwards. Raises on all
    ranks alike: Mismatch if they name different transports or kinds of devices, Unsupported without
    NCCL, or without the UCX of "network", Timeout if a rank does not come, PeerLost at once if the
    connections of the group are Gloo's and one of them broke.
    """
    return connect_equal(group, {}, transport, device=device, **options)


def connect_equal(
    group: dist.ProcessGroup | None,
    settings: Mapping[str, Any],
    transport: str = "auto",
    *,
    device: torch.device | str | None = None,
    **options: Any,
) -> gqsgd.Communicator:
    """`connect` for a caller whose `settings` are equal on all ranks: Mismatch where they are not.
    """
    check_connection(transport, options)
    if device is not None:
        devices.require_known(torch.device(device), "device is")
    member = _member(group)
    options = {"stream_id": stream_of(member.group), **_timeout_of(member.group), **options}
    if device is None:
        device = devices.cuda.current_device() if transport == "nccl" else devices.CPU
    device = torch.device(device)
    if device != devices.CPU:
        devices.require_no_capture()
    own = {"transport": transport, "device": device.type, "host": host.identity(), **settings}
    liveness = Liveness(member.group, member.rank, member.size)
    agree = partial(rendezvous, member.store, member.rank, member.size, liveness=liveness,
                    timeout_ms=int(options.get("timeout_ms", 0)))
    choice = agree(own, lambda reports: _decision(reports, options))
    if choice["transport"] == "network":
        try:
            return NetworkGroup(agree, member.rank, member.size, _id_options(member.store, options),
                                options).connect()
        except gqsgd.Unsupported as error:  # on all ranks alike
            if transport == "network":
                raise
            if member.rank == 0:
                _LOGGER.warning("between hosts messages go over Gloo instead of UCX: %s", error)
        choice = agree({}, lambda reports: _named("group", options))
    return _made(member, choice, device, liveness, options)


def stream_of(group: dist.ProcessGroup | None, user: str = "") -> int:
    """A number by which groups of other ranks draw other random numbers: 0 for a group of all ranks
    of the program in order, else a digest of the ranks, and of who draws beside the others in it.

    What one group has reduced may be what another one reduces, as in hybrid sharding. With the same
    random numbers the second rounding would follow from the first one, and the mean of both would
    be biased.
    """
    ranks = dist.get_process_group_ranks(group)
    is_whole = ranks == list(range(dist.get_world_size()))
    return 0 if is_whole and not user else digest([*ranks, *user.encode()])


def digest(numbers: Iterable[int]) -> int:
    """FNV-1a with a number, as that of a rank, for a byte, as over MPI."""
    found = 2166136261
    for number in numbers:
        found = (found ^ number) * 16777619 % 2**32
    return found


def _timeout_of(group: dist.ProcessGroup) -> dict[str, int]:
    """The option timeout_ms that is the group's own timeout: a rank that may be late for its
    collectives, as one that validates alone, may be so for these. Nothing where the environment
    has one, or the group's backend has none."""
    if os.environ.get("GQSGD_TIMEOUT_MS"):
        return {}
    backend = group._get_backend(group._device_types[0])
    timeout = getattr(getattr(backend, "options", None), "_timeout", None)
    return {} if timeout is None else {"timeout_ms": max(1, timeout // timedelta(milliseconds=1))}


def _made(
    member: Member,
    choice: Report,
    device: torch.device,
    liveness: Liveness,
    options: dict[str, Any],
) -> gqsgd.Communicator:
    """The communicator of rank 0's choice, but for one between hosts."""
    place = bytes.fromhex(choice["id"]), member.rank, member.size
    if choice["transport"] == "nccl":
        with devices.cuda.on_device(device):
            return gqsgd.Communicator.nccl(*place, **options)
    if choice["transport"] == "process":
        return gqsgd.Communicator.process(*place, **options)
    timeout = duration_of(int(options.get("timeout_ms", 0)))
    messages = GroupTransport(_gloo_group(member, choice["id"], timeout, liveness))
    try:
        return gqsgd.Communicator.custom(messages, **options)
    except BaseException:
        messages.close()
        raise


def _id_options(store: dist.Store, options: dict[str, Any]) -> dict[str, Any]:
    """Where rank 0 of a group between hosts listens."""
    while isinstance(store, dist.PrefixStore):
        store = store.underlying_store
    store_host = store.host if isinstance(store, dist.TCPStore) else ""
    interface = os.environ.get("GLOO_SOCKET_IFNAME", "").partition(",")[0]
    return host.id_options(options, interface, store_host)


def check_connection(transport: str, options: dict[str, Any]) -> None:
    """Raises what `connect` would raise for its arguments alone; waits for no other rank."""
    if transport not in TRANSPORTS:
        raise gqsgd.InvalidArgument(
            f"transport is {transport!r}; accepted are {', '.join(TRANSPORTS)}"
        )
    nodes = sequence(options.get("nodes"))
    size = 1 if nodes is None else len(nodes)
    for comm in gqsgd.Communicator.local(max(size, 1), **options):  # the library knows its options
        comm.close()


def _gloo_group(
    member: Member, name: str, timeout: timedelta, liveness: Liveness
) -> dist.ProcessGroupGloo:
    """A Gloo group of the same ranks, which torch.distributed does not list: it lives as long as
    its communicator, and destroying other groups does not end it."""
    if not dist.is_gloo_available():
        raise gqsgd.Unsupported("transport \"group\" needs a PyTorch that is built with Gloo")
    table = dist.PrefixStore(f"gqsgd/gloo/{name}", member.store)
    store = WatchedStore(table, liveness, timeout)
    try:
        gloo_group = dist.ProcessGroupGloo(store, member.rank, member.size, timeout)
        store.forget_group()
        return gloo_group
    except RuntimeError as error:
        liveness.look_again()  # raises PeerLost, the cause
        raise gqsgd.Backend(
            f"rank {member.rank} of {member.size}: Gloo does not connect the ranks: {error}; hint: "
            "GLOO_SOCKET_IFNAME names the network interface"
        ) from error


def shared(
    group: dist.ProcessGroup | None, device: torch.device = devices.CPU
) -> gqsgd.Communicator:
    """The communicator that all functions of this package without a state use for `group` and
    `device`; made at the first call, of which all ranks of the group must be part."""
    member = _member(group)
    with _lock:
        own = _shared.setdefault(member.group, _Shared())
    with own.lock:
        if device not in own.comms:
            stream_id = stream_of(member.group, f"functions {device.type}")
            own.comms[device] = connect(member.group, device=device, stream_id=stream_id)
        return own.comms[device]


def _member(group: dist.ProcessGroup | None) -> Member:
    if not dist.is_initialized():
        raise gqsgd.InvalidArgument(
            "there is no process group; hint: torch.distributed.init_process_group() first"
        )
    group = dist.group.WORLD if group is None else group
    if dist.get_rank(group) < 0:
        raise gqsgd.InvalidArgument(
            f"rank {dist.get_rank()} of the program is not in the process group; only members call"
        )
    try:
        store = group.get_group_store()
    except RuntimeError as error:  # a backend that finds its ranks in another way, MPI's
        raise gqsgd.Unsupported(
            f"the process group has no store ({error}); hint: make a gqsgd.Communicator, of MPI "
            "for example, and give it as communicator="
        ) from error
    return Member(group, dist.get_rank(group), dist.get_world_size(group), store)


def _decision(reports: list[Report], options: dict[str, Any]) -> Report:
    """Rank 0's decision: the transport of all, and the name of the group. One between hosts gets
    its name later, when all ranks are known to have a UCX."""
    _require_equal(reports)
    transport = _agreed(reports)
    return {"transport": transport} if transport == "network" else _named(transport, options)


def _require_equal(reports: list[Report]) -> None:
    """Raises Mismatch where a rank differs from rank 0 in what both report."""
    for field, value in reports[0].items():
        for rank, report in enumerate(reports):
            other = report.get(field, value)
            if field != "host" and other != value:
                raise gqsgd.Mismatch(
                    f"{field} differs: rank 0 has {value!r}, rank {rank} has {other!r}; hint: give "
                    "the same on all ranks"
                )


def _named(transport: str, options: dict[str, Any]) -> Report:
    """A transport, and a new name for a group over it."""
    if transport == "nccl":
        name = gqsgd.nccl_unique_id(**{key: options[key] for key in ("nccl",) if key in options})
    elif transport == "group":
        name = uuid.uuid4().bytes
    else:
        name = gqsgd.unique_id()
    return {"transport": transport, "id": name.hex()}


def _agreed(reports: list[Report]) -> str:
    """The transport of all, from what every rank reports of itself."""
    transport, on_host = str(reports[0]["transport"]), reports[0]["device"] == "cpu"
    if transport == "auto":
        one_host = all(each["host"] == reports[0]["host"] for each in reports)
        return "nccl" if not on_host else "process" if one_host else "network"
    if transport in (("nccl",) if on_host else ("network", "group")):
        raise gqsgd.InvalidArgument(
            f"transport is {transport!r} and tensors are on {reports[0]['device']}; hint: \"nccl\" "
            'is for GPUs, "network" and "group" are for host memory, "process" is for both, "auto" '
            "knows"
        )
    return transport
