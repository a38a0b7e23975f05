"""Ranks that are processes, each started with the unique id on its standard input."""

import subprocess
import sys

import gqsgd


def run_processes(program, size, job, environment, timeout_s=60):
    """Runs `program RANK SIZE JOB` as `size` processes; (exit status, output) in rank order, where
    a negative status is the signal that killed one. A rank's standard input goes on after the id
    until all ranks before it have ended."""
    unique_id = gqsgd.unique_id()
    processes = [
        subprocess.Popen(
            [sys.executable, program, str(rank), str(size), job],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for rank in range(size)
    ]
    try:
        for process in processes:
            process.stdin.write(unique_id)
            process.stdin.flush()
        ended = [process.communicate(timeout=timeout_s) for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    for process, (_, complaint) in zip(processes, ended):
        assert process.returncode <= 0, complaint.decode()
    return [(process.returncode, output) for process, (output, _) in zip(processes, ended)]
