"""Communicators of torch process groups: which transport, how the ranks meet."""

from __future__ import annotations

import os
import socket
import threading
import weakref
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

import gqsgd

from .group_transport import GroupTransport

TRANSPORTS = ("auto", "group", "process")

_lock = threading.Lock()
_shared: weakref.WeakKeyDictionary[dist.ProcessGroup, gqsgd.Communicator]
_shared = weakref.WeakKeyDictionary()


def connect(
    group: dist.ProcessGroup | None, transport: str = "auto", **options: Any
) -> gqsgd.Communicator:
    """Makes a communicator of the ranks of `group` (None: the default group), which all call it.

    transport: "process" through shared memory, for ranks of one machine; "group" through sends and
        receives of a Gloo group of its own; "auto" takes the first where all ranks are of one user
        and see one machine and network namespace, else the second.
    options: those of gqsgd.Communicator.

    The group itself serves to agree, with one all_gather_object, and is not used afterwards.
    Raises InvalidArgument on all ranks if they name different transports.
    """
    if transport not in TRANSPORTS:
        raise gqsgd.InvalidArgument(
            f"transport is {transport!r}; accepted are {', '.join(TRANSPORTS)}"
        )
    group = _member(group)
    if "cpu:" not in (backends := dist.get_backend_config(group)):
        raise gqsgd.Unsupported(
            f"the process group has {backends} alone; gqsgd.torch takes CPU tensors, CUDA over "
            "NCCL is not there yet; hint: init_process_group('cpu:gloo,cuda:nccl')"
        )
    rank, size = dist.get_rank(group), dist.get_world_size(group)
    own = transport, _host(), gqsgd.unique_id() if rank == 0 else b""
    offers: list[Any] = [None] * size
    dist.all_gather_object(offers, own, group)
    chosen = _agreed(offers)
    if chosen == "process":
        return gqsgd.Communicator.process(offers[0][2], rank, size, **options)
    ranks = dist.get_process_group_ranks(group)
    # Only members take part, whatever other ranks the program has.
    own_group = dist.new_group(ranks, backend="gloo", use_local_synchronization=True)
    return gqsgd.Communicator.custom(GroupTransport(own_group), **options)


def shared(group: dist.ProcessGroup | None) -> gqsgd.Communicator:
    """The communicator that all functions of this package without a state use for `group`; made at
    the first call, of which all ranks of the group must be part."""
    group = _member(group)
    with _lock:
        if group not in _shared:
            _shared[group] = connect(group)
        return _shared[group]


def require_host_memory(tensor: torch.Tensor, role: str) -> None:
    """Refuses what only a CUDA communicator could reach."""
    if tensor.is_sparse:
        raise gqsgd.Unsupported(f"{role} is a sparse tensor; hint: Embedding(sparse=False)")
    if tensor.device.type != "cpu":
        raise gqsgd.Unsupported(
            f"{role} is on {tensor.device}; gqsgd.torch takes CPU tensors, CUDA over NCCL is not "
            "there yet"
        )


def _member(group: dist.ProcessGroup | None) -> dist.ProcessGroup:
    if not dist.is_initialized():
        raise gqsgd.InvalidArgument(
            "there is no process group; hint: torch.distributed.init_process_group('gloo') first"
        )
    group = dist.group.WORLD if group is None else group
    if dist.get_rank(group) < 0:
        raise gqsgd.InvalidArgument(
            f"rank {dist.get_rank()} of the program is not in the process group; only members call"
        )
    return group


def _host() -> tuple[Any, ...]:
    """What processes must have in common to meet in shared memory: the machine since its start,
    the user, and the network namespace, in which they find each other."""
    boot = Path("/proc/sys/kernel/random/boot_id")
    return (
        socket.gethostname(),
        boot.read_text() if boot.exists() else "",
        os.getuid(),
        os.stat("/proc/self/ns/net").st_ino if os.path.exists("/proc/self/ns/net") else 0,
    )


def _agreed(offers: list[Any]) -> str:
    """The transport of all, from what every rank says of itself."""
    wishes = [transport for transport, _, _ in offers]
    if len(set(wishes)) > 1:
        other = next(rank for rank, wish in enumerate(wishes) if wish != wishes[0])
        raise gqsgd.InvalidArgument(
            f"transport is {wishes[0]!r} on rank 0 and {wishes[other]!r} on rank {other}; "
            "hint: give the same on all ranks"
        )
    if wishes[0] != "auto":
        return str(wishes[0])
    return "process" if len({host for _, host, _ in offers}) == 1 else "group"
