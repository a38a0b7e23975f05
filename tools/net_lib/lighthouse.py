"""torchft's lighthouse on a host of a network."""

import contextlib
import shutil
import subprocess

_PORT = 29510


@contextlib.contextmanager
def lighthouse(host, least, join_timeout_ms, heartbeat_timeout_ms):
    """Its address; a quorum has `least` replicas or more."""
    program = shutil.which("torchft_lighthouse")
    if program is None:
        raise RuntimeError("torchft_lighthouse is not on the PATH: pip install torchft")
    running = subprocess.Popen(
        host.command(program, "--min_replicas", str(least), "--join_timeout_ms",
                     str(join_timeout_ms), "--heartbeat_timeout_ms", str(heartbeat_timeout_ms),
                     "--bind", f"{host.address}:{_PORT}"),
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield f"http://{host.address}:{_PORT}"
    finally:
        running.kill()
        running.wait()
