"""A program on every host of a network, one rank each, without MPI."""

import os
import subprocess
import sys

_PORT = 29500

# Hosts are namespaces of one machine: UCX would see that and take memory that they share.
_UCX = {"UCX_TLS": "tcp,self"}


def environment(network, rank):
    """What torchrun gives the ranks of several machines, and what namespaces need besides."""
    return {"RANK": rank, "WORLD_SIZE": len(network.hosts), "LOCAL_RANK": 0, "LOCAL_WORLD_SIZE": 1,
            "MASTER_ADDR": network.hosts[0].address, "MASTER_PORT": _PORT,
            "OWN_ADDRESS": network.hosts[rank].address,
            "GLOO_SOCKET_IFNAME": "eth0", "GQSGD_INTERFACE": "eth0", **_UCX}


def command_of(network, rank, program, *arguments):
    """What runs the Python file `program` as a rank on its host."""
    paths = os.pathsep.join(filter(None, sys.path))
    variables = {**environment(network, rank), "PYTHONPATH": paths}
    return network.hosts[rank].command(
        "env", *(f"{key}={value}" for key, value in variables.items()), sys.executable,
        str(program), *map(str, arguments))


def outputs_of(network, name, program, *arguments, timeout_s=600):
    """What the Python file `program` prints on each host. RuntimeError names a rank that fails."""
    ranks = []
    try:
        for rank in range(len(network.hosts)):
            command = command_of(network, rank, program, *arguments)
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
            raise RuntimeError(f"rank {number} of {name} ended with {rank.returncode}: "
                               f"{errors.strip()[-2000:]}")
    return [output for output, _ in outputs]
