"""The host of this process, as frameworks need it to form groups: what processes that share memory
have in common, and the address that others reach."""

from __future__ import annotations

import ipaddress
import os
import socket
from contextlib import suppress
from pathlib import Path
from typing import Any

_CHOSEN = ("GQSGD_INTERFACE", "GQSGD_ADDRESS")  # by the user, which the library reads


def identity() -> list[Any]:
    """What processes must have in common to use shared memory: the machine since its start,
    the user, and the network namespace, in which they find each other."""
    boot = Path("/proc/sys/kernel/random/boot_id")
    return [
        socket.gethostname(),
        boot.read_text() if boot.exists() else "",
        os.getuid(),
        os.stat("/proc/self/ns/net").st_ino if os.path.exists("/proc/self/ns/net") else 0,
    ]


def id_options(options: dict[str, Any], interface: str, rendezvous: str) -> dict[str, Any]:
    """Options of `gqsgd.network_id` out of those of a communicator: the address at which rank 0
    listens. That is what the user has chosen; else of the network interface `interface`, unless it
    is ""; else the address by which this process reaches `rendezvous`, a host where the program's
    ranks have found each other, unless that is this machine by its loopback."""
    given = {key: options[key] for key in ("interface", "address", "port") if key in options}
    if {"interface", "address"} & set(given) or any(os.environ.get(name) for name in _CHOSEN):
        return given
    if interface:
        return {**given, "interface": interface}
    address = _address_towards(rendezvous)
    return {**given, "address": address} if address else given


def _address_towards(host: str) -> str:
    """This machine's address on the way to `host`; "" where it is none that others reach. Sends
    nothing: connecting a datagram socket only looks up the route."""
    if not host:
        return ""
    with suppress(OSError):
        family, _, _, _, target = socket.getaddrinfo(host, 9, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect(target)
            address = str(probe.getsockname()[0])
        if not ipaddress.ip_address(address.partition("%")[0]).is_loopback:
            return address
    return ""
