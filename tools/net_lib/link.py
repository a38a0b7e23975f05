"""What one link of a network can do, measured between two of its hosts over plain TCP."""

import json
import subprocess
import sys
from pathlib import Path

_PORT = 29600


def constants(network):
    """{"latency_ns", "byte_ns", "message_ns"} of docs/COST.md: half a round trip of one byte,
    the time of a byte in a long stream, and the processor time of a message at one end."""
    server, client = network.hosts[0], network.hosts[1]
    program = [sys.executable, str(Path(__file__).with_name("link_end.py"))]
    waiting = subprocess.Popen(server.command(*program, "server", server.address, str(_PORT)),
                               stdout=subprocess.PIPE, text=True)
    try:
        assert waiting.stdout.readline().strip() == "ready"
        done = subprocess.run(client.command(*program, "client", server.address, str(_PORT)),
                              capture_output=True, text=True, timeout=120, check=True)
        waiting.wait(timeout=30)
    finally:
        if waiting.poll() is None:
            waiting.kill()
            waiting.wait()
    return json.loads(done.stdout)
