"""Sums of float32 over Gloo through PyTorch, one process per host of a network."""

import json
import subprocess
import sys
from pathlib import Path

_PROGRAM = Path(__file__).with_name("gloo_rank.py")
_PORT = 29500


def measured(network, dtype, value_count, iteration_count, timeout_s=600):
    """{"seconds": of every timed call that of its slowest rank, "nmse": error of normal values};
    the values travel as `dtype`: float32, float16 or bfloat16."""
    size, address = len(network.hosts), f"{network.hosts[0].address}:{_PORT}"
    ranks = []
    try:
        for rank, host in enumerate(network.hosts):
            command = host.command("env", "GLOO_SOCKET_IFNAME=eth0", sys.executable, str(_PROGRAM),
                                   str(rank), str(size), address, str(value_count),
                                   str(iteration_count), dtype)
            ranks.append(subprocess.Popen(command, stdout=subprocess.PIPE,
                                          stderr=subprocess.PIPE, text=True))
        outputs = [rank.communicate(timeout=timeout_s) for rank in ranks]
    finally:
        for rank in ranks:
            if rank.poll() is None:
                rank.kill()
                rank.wait()
    for number, (rank, (_, errors)) in enumerate(zip(ranks, outputs, strict=True)):
        if rank.returncode != 0:
            raise RuntimeError(f"rank {number} of Gloo ended with {rank.returncode}: "
                               f"{errors.strip().splitlines()[-1:]}")
    return json.loads(outputs[0][0])
