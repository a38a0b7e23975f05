"""Communicators of torch process groups: which transport, and the rendezvous of the ranks."""

from __future__ import annotations

import os
import socket
import threading
import uuid
import weakref
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.distributed as dist

import gqsgd

from . import devices
from .group_transport import GroupTransport
from .liveness import Liveness, WatchedStore
from .rendezvous import Said, rendezvous, patience_of

TRANSPORTS = ("auto", "group", "process", "nccl")

_lock = threading.Lock()
_shared: weakref.WeakKeyDictionary[dist.ProcessGroup, dict[torch.device, gqsgd.Communicator]]
_shared = weakref.WeakKeyDictionary()


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

    transport: "process" through shared memory, for ranks of one machine; "group" through sends and
        receives of a Gloo group of its own; "nccl" between GPUs, by an NCCL communicator of its
        own. "auto" is "nccl" for a GPU; otherwise "process" where all ranks are of one user and see
        one machine and network namespace, else "group".
    device: where the tensors will be; None is the CPU, or with "nccl" the current GPU.
    options: those of gqsgd.Communicator.

    The ranks agree through the store of the group, which is not used afterwards. Raises on all
    ranks alike: InvalidArgument if they name different transports or kinds of devices, Unsupported
    without NCCL, Timeout if a rank does not come, PeerLost at once if the connections of the group
    are Gloo's and one of them broke.
    """
    check_connection(transport, options)
    member = _member(group)
    if device is None:
        device = devices.cuda.current_device() if transport == "nccl" else devices.CPU
    device = torch.device(device)
    own = {"transport": transport, "device": device.type, "host": _host()}
    liveness = Liveness(member.group, member.rank, member.size)
    timeout_ms = int(options.get("timeout_ms", 0))
    choice = rendezvous(member.store, member.rank, member.size, own,
                  lambda said: _decision(said, options), timeout_ms, liveness)
    place = bytes.fromhex(choice["id"]), member.rank, member.size
    if choice["transport"] == "nccl":
        with devices.cuda.on_device(device):
            return gqsgd.Communicator.nccl(*place, **options)
    if choice["transport"] == "process":
        return gqsgd.Communicator.process(*place, **options)
    messages = GroupTransport(_gloo_group(member, choice["id"], patience_of(timeout_ms), liveness))
    try:
        return gqsgd.Communicator.custom(messages, **options)
    except BaseException:
        messages.close()
        raise


def check_connection(transport: str, options: dict[str, Any]) -> None:
    """Raises what `connect` would raise for its arguments alone; waits for no other rank."""
    if transport not in TRANSPORTS:
        raise gqsgd.InvalidArgument(
            f"transport is {transport!r}; accepted are {', '.join(TRANSPORTS)}"
        )
    nodes = options.get("nodes")
    size = len(nodes) if isinstance(nodes, (tuple, list)) else 1
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
        made = _shared.setdefault(member.group, {})
        if device not in made:
            made[device] = connect(member.group, device=device)
        return made[device]


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


def _host() -> list[Any]:
    """What processes must have in common to use shared memory: the machine since its start,
    the user, and the network namespace, in which they find each other."""
    boot = Path("/proc/sys/kernel/random/boot_id")
    return [
        socket.gethostname(),
        boot.read_text() if boot.exists() else "",
        os.getuid(),
        os.stat("/proc/self/ns/net").st_ino if os.path.exists("/proc/self/ns/net") else 0,
    ]


def _decision(said: list[Said], options: dict[str, Any]) -> Said:
    """Rank 0's decision: the transport of all, and the name of the group."""
    transport = _agreed(said)
    if transport == "nccl":
        name = gqsgd.nccl_unique_id(**{key: options[key] for key in ("nccl",) if key in options})
    elif transport == "group":
        name = uuid.uuid4().bytes
    else:
        name = gqsgd.unique_id()
    return {"transport": transport, "id": name.hex()}


def _agreed(said: list[Said]) -> str:
    """The transport of all, from what every rank reports of itself."""
    for field in ("transport", "device"):
        values = [each[field] for each in said]
        if len(set(values)) > 1:
            other = next(rank for rank, value in enumerate(values) if value != values[0])
            raise gqsgd.InvalidArgument(
                f"{field} is {values[0]!r} on rank 0 and {values[other]!r} on rank {other}; "
                "hint: give the same on all ranks"
            )
    transport, on_host = str(said[0]["transport"]), said[0]["device"] == "cpu"
    if transport == "auto":
        one_host = all(each["host"] == said[0]["host"] for each in said)
        return "nccl" if not on_host else "process" if one_host else "group"
    if on_host == (transport == "nccl"):
        raise gqsgd.InvalidArgument(
            f"transport is {transport!r} and tensors are on {said[0]['device']}; hint: \"nccl\" is "
            'for GPUs, "process" and "group" are for host memory, "auto" knows'
        )
    return transport
