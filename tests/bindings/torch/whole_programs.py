"""Runs a small training of two ranks again and again, as whole programs whose ends are looked at.

    python whole_programs.py TRANSPORT RUN_COUNT [PARALLEL_COUNT]

The runs take turns in how they end. Torch is imported once; every rank is a fork of this process
that leaves the interpreter as any program does, by its last line. Prints a line for each rank that
ends in another way than with exit code 0: 3 is a rank whose threads still run when all else has
ended, which is harmless only where the scheduler is kind.
"""

import atexit
import os
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "bindings" / "python"))


@atexit.register  # the first registered is the last called
def no_threads_are_left():
    if any("gqsgd" in thread.name for thread in threading.enumerate()):
        os._exit(3)


import gqsgd.torch
import torch
import torch._dynamo  # what DDP imports later would cost every rank seconds
import torch.distributed as dist
import torch_models as models

RANK_COUNT = 2
RUN_TIMEOUT_S = 300

ENDINGS = {
    "close": lambda state: state.close(),
    "nothing": lambda state: None,
    "destroy": lambda state: dist.destroy_process_group(),
    "destroy, close": lambda state: (dist.destroy_process_group(), state.close()),
    "close, destroy": lambda state: (state.close(), dist.destroy_process_group()),
    "connect": None,  # a communicator of the caller's, which is never closed
}


def train(rank, store_path, transport, ending):
    """What a rank does; `kept` is what a program's globals hold when it ends."""
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"file://{store_path}", rank=rank, world_size=RANK_COUNT)
    if ending == "connect":
        comm = gqsgd.torch.connect(None, transport)
        comm.allreduce(torch.ones(5000), gqsgd.Quantizer())
        return comm
    model, state = models.hooked(models.perceptron(), transport=transport)
    models.train(model, range(3))
    ENDINGS[ending](state)
    return model, state


def fork_run(folder, number, transport, ending):
    """Starts the ranks of a run; (pid, rank) of each, or what a rank keeps, in that rank."""
    pids = {}
    for rank in range(RANK_COUNT):
        pid = os.fork()
        if pid == 0:
            return None, train(rank, f"{folder}/{number}", transport, ending)
        pids[pid] = number, rank
    return pids, None


def judge(pids, ends_s, failures):
    """Waits for one rank of any run."""
    for pid, (number, rank) in list(pids.items()):
        gone, status = os.waitpid(pid, os.WNOHANG)
        if not gone and time.monotonic() > ends_s[number]:
            os.kill(pid, signal.SIGKILL)
            gone, status = os.waitpid(pid, 0)
        if gone:
            del pids[pid]
            if status != 0:
                code = os.waitstatus_to_exitcode(status)
                ending = list(ENDINGS)[number % len(ENDINGS)]
                failures.append(f"run {number} ({ending}), rank {rank}: exit code {code}")


def main():
    transport = sys.argv[1]
    run_count, parallel_count = int(sys.argv[2]), int((sys.argv + ["2"])[3])
    endings = list(ENDINGS)
    folder = tempfile.mkdtemp()
    pids, ends_s, failures, started = {}, {}, [], 0
    while started < run_count or pids:
        if started < run_count and len(pids) < RANK_COUNT * parallel_count:
            more, kept = fork_run(folder, started, transport, endings[started % len(endings)])
            if more is None:
                return kept  # a rank: its program ends with this
            ends_s[started] = time.monotonic() + RUN_TIMEOUT_S
            pids |= more
            started += 1
        else:
            judge(pids, ends_s, failures)
            time.sleep(0.01)
    print("\n".join(failures))
    sys.exit(len(failures) > 0)


kept = main()
