"""Bytes that a host has sent."""

from pathlib import Path


def sent_bytes(interface="eth0"):
    """By this network namespace's interface so far, headers of Ethernet, IP and TCP included."""
    for line in Path("/proc/net/dev").read_text().splitlines():
        name, _, numbers = line.strip().partition(":")
        if name == interface:
            return int(numbers.split()[8])
    raise RuntimeError(f"/proc/net/dev has no interface {interface}")
