"""One rank of test_network.py, under mpirun: averages until it gets the signal to stop or a call
fails.

    network_rank.py FOLDER VALUE_COUNT TIMEOUT_MS PRESET SCHEDULE

Leaves in FOLDER: RANK.begun after its first call, RANK.end (JSON) with what became of the last one.
"""

import ctypes
import json
import os
import sys
import time
from pathlib import Path

import gqsgd
import numpy as np
from gqsgd import _mpi


def put(path, text):
    """Whole or not at all: the reader may look at any time."""
    draft = path.with_suffix(".draft")
    draft.write_text(text)
    draft.rename(path)


def calls_until(stop, comm, q, values, schedule, begun):
    """{"calls", "error", "sentence", "seconds" of the last call, "intact", "xor" of the result}."""
    number = 0
    while True:
        # Ranks stop at the same call: number 0 says after which one.
        last = np.array([float(stop.exists() and comm.rank == 0)], np.float32)
        before, begin = values.copy(), time.monotonic()
        found = {"calls": number, "error": None, "sentence": ""}
        try:
            result = comm.allreduce(values, q, schedule=schedule, step=number)
            ended = comm.allreduce(last, gqsgd.Quantizer("none"), op="sum", schedule="direct")[0]
        except gqsgd.GqsgdError as error:
            found |= {"error": type(error).__name__, "sentence": str(error)}
            result, ended = None, 1
        found |= {"seconds": time.monotonic() - begin,
                  "intact": values.tobytes() == before.tobytes()}
        if ended:
            if result is not None:
                found["xor"] = int(np.bitwise_xor.reduce(result.view(np.uint32)))
            return found
        number += 1
        if not begun.exists():
            put(begun, "")


def main():
    folder, (count, timeout_ms) = Path(sys.argv[1]), map(int, sys.argv[2:4])
    preset, schedule = sys.argv[4:]
    _mpi.library()  # brings MPI with it
    mpi = ctypes.CDLL(None)
    assert mpi.MPI_Init(None, None) == 0
    comm = gqsgd.Communicator.mpi(None, timeout_ms=timeout_ms)
    values = np.random.default_rng(comm.rank).standard_normal(count, np.float32)
    found = calls_until(folder / "stop", comm, gqsgd.Quantizer(preset), values, schedule,
                        folder / f"{comm.rank}.begun")
    put(folder / f"{comm.rank}.end", json.dumps(found))
    if found["error"] is None:
        comm.close()
        assert mpi.MPI_Finalize() == 0
    else:
        # mpirun ends the others when one has left, and they are to say what they saw.
        ends = [folder / f"{rank}.end" for rank in range(comm.size)]
        limit = time.monotonic() + 20
        while time.monotonic() < limit and not all(path.exists() for path in ends):
            time.sleep(0.02)
        os._exit(0)  # over a dead link MPI_Finalize would wait for ever


if __name__ == "__main__":
    main()
