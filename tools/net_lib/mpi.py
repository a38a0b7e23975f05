"""Programs under mpirun (Open MPI), one rank per host of a network."""

import os
import shlex
import subprocess
import tempfile
from pathlib import Path

# Ranks are reached as on any cluster: mpirun starts its daemons on the other hosts by a remote
# shell, and here that is a script which enters their namespaces.
_AGENT = """#!/bin/sh
address=$1
shift
case $address in
{cases}
  *) echo "no host has the address $address" >&2; exit 1 ;;
esac
"""
_CASE = """  {address}) exec {command} "$@" ;;"""


def _case(host):
    """The remote shell to one host: words are joined and read again, as ssh does."""
    return _CASE.format(address=host.address,
                        command=shlex.join(host.command("sh", "-c", 'eval "$*"', "sh")))


class Mpirun:
    def __init__(self, network, program="mpirun"):
        self._network = network
        self._program = program
        self._folder = tempfile.TemporaryDirectory(prefix="gqsgd-netbench-")
        self._agent = Path(self._folder.name) / "agent"
        cases = map(_case, network.hosts)
        self._agent.write_text(_AGENT.format(cases="\n".join(cases)))
        self._agent.chmod(0o700)

    def close(self):
        self._folder.cleanup()

    def command(self, *command):
        hosts = self._network.hosts
        root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
        return hosts[0].command(
            self._program, *root, "-n", str(len(hosts)),
            "--bind-to", "none",  # every daemon would give its first rank the same processor
            "-host", ",".join(host.address for host in hosts),
            "--leave-session-attached", "--mca", "plm_rsh_agent", str(self._agent),
            "--mca", "btl", "self,tcp", "--mca", "btl_tcp_if_include", "eth0",
            "--mca", "oob_tcp_if_include", "eth0", *command)

    def run(self, *command, timeout_s=1200):
        """What it printed; RuntimeError with the end of its errors if it failed."""
        done = subprocess.run(self.command(*command), capture_output=True, text=True,
                              timeout=timeout_s, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"mpirun ended with {done.returncode}: "
                               f"{(done.stderr or done.stdout).strip()[-2000:]}")
        return done.stdout
