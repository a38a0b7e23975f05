"""tools/netfaults between hosts that are namespaces: each kind of failure, and nothing left."""

import os
import subprocess
import sys

import gqsgd
import pytest
from gqsgd.network import ucx

TIMEOUT_S = 150


def namespaces():
    return subprocess.run(["ip", "netns", "list"], capture_output=True, text=True,
                          check=True).stdout.split()


def test_hosts_that_are_cut_off_are_named(root, build_directory, network):
    try:
        ucx.report()
    except gqsgd.Unsupported as error:
        pytest.skip(str(error))
    process = subprocess.Popen(
        [sys.executable, root / "tools/netfaults", "--build", build_directory, "--instants", "14",
         "--seed", "3", "--slack-ms", "15000"],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=dict(os.environ))
    try:
        output, _ = process.communicate(timeout=TIMEOUT_S)
    finally:
        process.terminate()
        process.wait()
    assert process.returncode == 0, output
    for kind in ("cut link", "blackhole", "blackhole, one pair", "kill on a host"):
        assert f"| {kind} |" in output
    assert not [name for name in namespaces() if name.startswith(f"gqsgd{process.pid}")]
