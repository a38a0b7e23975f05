"""One rank of allreduces by this library between hosts: prints JSON, a list of {"format", "seconds"
of each call, "nmse", "bytes" that a rank sends in a call}.

    library_rank.py COUNT ITERATIONS SCHEDULE COMM_OPTIONS FORMAT..

The environment is torchrun's. Values are float32 with the law of gqsgd-perf's (bench/perf): errors
of both can be compared. A call is as slow as its slowest rank.
"""

import json
import sys
import time

import gqsgd
import numpy as np

WARM_CALLS = 2
COMMON_SEED = 2**32
FLOATS = gqsgd.Quantizer("none")


def nearly_normal(seed, count):
    """The sum of four uniforms, centred and scaled to variance 1."""
    rng = np.random.default_rng(seed)
    total = sum(rng.random(count, np.float32) for _ in range(4))
    return (total - np.float32(2)) * np.float32(1.7320508)


def timed(comm, inputs, results, q, schedule):
    """Seconds of one call, which all ranks begin together."""
    comm.allreduce(np.zeros(1, np.float32), FLOATS)
    begin = time.perf_counter()
    comm.allreduce(inputs, q, schedule=schedule, out=results)
    return time.perf_counter() - begin


def measured(comm, spec, inputs, iterations, schedule):
    q, results = gqsgd.Quantizer(spec), np.empty_like(inputs)
    for _ in range(WARM_CALLS):
        timed(comm, inputs, results, q, schedule)
    before = comm.stats()
    comm.allreduce(inputs, q, schedule=schedule, out=results)
    sent_bytes = comm.stats().since(before)["payload_bytes_sent"]
    own = [timed(comm, inputs, results, q, schedule) for _ in range(iterations)]
    of_all = comm.allgather(np.array(own, np.float32), FLOATS).reshape(comm.size, iterations)
    return {"format": spec, "seconds": of_all.max(axis=0).tolist(), "bytes": sent_bytes,
            "nmse": comm.measured_error(inputs, q, schedule)}


def main():
    count, iterations, schedule, options = int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:5]
    fields = dict(field.split("=") for field in options.split(",") if field)
    with gqsgd.Communicator.from_env(**fields) as comm:
        common = nearly_normal(COMMON_SEED, count)
        inputs = np.float32(0.5) * common + nearly_normal(comm.rank, count)
        rows = [measured(comm, spec, inputs, iterations, schedule) for spec in sys.argv[5:]]
        if comm.rank == 0:
            print(json.dumps(rows))


if __name__ == "__main__":
    main()
