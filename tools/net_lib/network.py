"""Hosts that are network namespaces, joined by a bridge; every link has one rate both ways."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass

_SUBNET = "10.77.0"
_BURST_BYTES = 128 * 1024  # what a link may send at once: two offloaded TCP segments
_QUEUE_MS = 20
_FIREWALLS = ("arptables", "ip6tables", "iptables")  # that Linux may show a bridge's frames to
UNLIMITED = "unlimited"  # the rate of links that are as fast as the machine


def run(*command):
    """Its output; the error of a failed command is part of the exception."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip() or done.returncode}")
    return done.stdout


def exit_when_terminated():
    """SIGTERM then ends this program as Ctrl-C does: hosts and ranks are removed on the way out."""
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    sys.unraisablehook = _exit_once_more


def _exit_once_more(ignored):
    """What is raised within a finalizer is ignored, and so would be an exit."""
    if ignored.exc_type is not SystemExit:
        return sys.__unraisablehook__(ignored)
    return threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGTERM)).start()


@contextlib.contextmanager
def undisturbed():
    """SIGTERM and Ctrl-C come when it is over, to this program and to what it runs inside."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@dataclass(frozen=True)
class Host:
    name: str  # of its namespace, and its host name
    address: str
    processors: str  # that it may use, as taskset lists them

    def command(self, *command):
        """`command` as a process of this host: its network, its host name, its processors."""
        script = 'hostname "$0" && exec "$@"'
        return ["taskset", "-c", self.processors, "ip", "netns", "exec", self.name,
                "unshare", "--uts", "sh", "-c", script, self.name, *command]


def processors_of(host_count):
    """Each host's, as taskset lists them. Where there are enough every host has its own, as real
    ones do: two ranks that wait for each other on one processor alternate, not overlap. Else all
    have all."""
    usable = sorted(os.sched_getaffinity(0))
    own = len(usable) // host_count
    return [",".join(map(str, usable[k * own:(k + 1) * own] or usable)) for k in range(host_count)]


def _end_processes_of(namespace):
    """Ranks, and daemons of MPI, that wait for a peer whose link is down would stay."""
    for number in run("ip", "netns", "pids", namespace).split():
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(number), signal.SIGKILL)


class Network:
    """Makes `host_count` hosts on entry and removes them on exit, whatever happened in between.

    Nothing of the machine's own network is touched: the bridge has a namespace of its own."""

    def __init__(self, host_count, rate):
        prefix = f"gqsgd{os.getpid()}"
        self.rate = rate
        self.switch = f"{prefix}sw"
        self.hosts = [Host(f"{prefix}h{k}", f"{_SUBNET}.{k + 1}", processors)
                      for k, processors in enumerate(processors_of(host_count))]
        self.subnet = f"{_SUBNET}.0/24"
        self._made = []

    def __enter__(self):
        try:
            self._make_namespace(self.switch)
            self._pass_firewalls()
            run("ip", "-n", self.switch, "link", "add", "bridge", "type", "bridge")
            run("ip", "-n", self.switch, "link", "set", "bridge", "up")
            for number, host in enumerate(self.hosts):
                self._attach(host, f"port{number}")
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, *_):
        with undisturbed():
            for name in reversed(self._made):
                with contextlib.suppress(RuntimeError):
                    _end_processes_of(name)
                    run("ip", "netns", "delete", name)  # takes its links along
            self._made.clear()

    def set_rate(self, rate):
        self.rate = rate
        for number, host in enumerate(self.hosts):
            self._limit(host.name, "eth0", "replace")
            self._limit(self.switch, f"port{number}", "replace")

    def set_link(self, host, up):
        run("ip", "-n", host.name, "link", "set", "eth0", "up" if up else "down")

    def set_blackhole(self, host, peer):
        """What `host` sends to `peer` vanishes from now on."""
        run("ip", "-n", host.name, "route", "add", "blackhole", f"{peer.address}/32")

    def clear_blackhole(self, host, peer):
        run("ip", "-n", host.name, "route", "delete", "blackhole", f"{peer.address}/32")

    def add_dead_end(self, host, device, address):
        """An interface that is up and joins no other host, as the bridge of a container engine."""
        end = f"{device}_end"
        run("ip", "-n", host.name, "link", "add", device, "type", "veth", "peer", "name", end)
        run("ip", "-n", host.name, "address", "add", address, "dev", device)
        run("ip", "-n", host.name, "link", "set", device, "up")
        run("ip", "-n", host.name, "link", "set", end, "up")

    def add_address(self, host, label, address):
        """A second one of the host, as `ifconfig eth0:1` adds it."""
        run("ip", "-n", host.name, "address", "add", address, "dev", "eth0", "label", label)

    def set_mtu(self, host, size_bytes):
        run("ip", "-n", host.name, "link", "set", "eth0", "mtu", str(size_bytes))

    def _make_namespace(self, name):
        with undisturbed():  # a host that is half made, or not written down, would stay
            run("ip", "netns", "add", name)
            self._made.append(name)
        run("ip", "-n", name, "link", "set", "lo", "up")

    def _pass_firewalls(self):
        """A switch has none; here each frame in one would take time of the hosts' processors."""
        for name in _FIREWALLS:
            setting = f"net/bridge/bridge-nf-call-{name}"
            if os.path.exists(f"/proc/sys/{setting}"):
                run("ip", "netns", "exec", self.switch, "sysctl", "-q", "-w", f"{setting}=0")

    def _attach(self, host, port):
        self._make_namespace(host.name)
        run("ip", "-n", host.name, "link", "add", "eth0", "type", "veth",
            "peer", "name", port, "netns", self.switch)
        run("ip", "-n", self.switch, "link", "set", port, "master", "bridge", "up")
        run("ip", "-n", host.name, "address", "add", f"{host.address}/24", "dev", "eth0")
        run("ip", "-n", host.name, "link", "set", "eth0", "up")
        self._limit(host.name, "eth0", "add")
        self._limit(self.switch, port, "add")

    def _limit(self, namespace, device, action):
        if self.rate == UNLIMITED:
            if action == "replace":
                with contextlib.suppress(RuntimeError):  # there is none
                    run("tc", "-n", namespace, "qdisc", "delete", "dev", device, "root")
            return
        run("tc", "-n", namespace, "qdisc", action, "dev", device, "root", "tbf",
            "rate", self.rate, "burst", str(_BURST_BYTES), "latency", f"{_QUEUE_MS}ms")
