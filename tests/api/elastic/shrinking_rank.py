"""A rank of test_hosts.py: does what lines of standard input say, and answers each with a line.

    call    calls until one fails                     failed PeerLost: sentence
    shrink  shrinks; from then on it calls its new    members 0 1 in 73 ms; repeat
            communicator                              Revoked: sentence
    check   one call, against virtual ranks           as simulated
"""

import sys
import time

import gqsgd
import numpy as np

VALUES = 200_000  # 2 ms of a link of 1 Gbit/s


def gradients(size):
    return [np.random.default_rng(rank).standard_normal(VALUES).astype(np.float32)
            for rank in range(size)]


class Rank:
    def __init__(self, timeout_ms):
        self.comm = gqsgd.Communicator.from_env(timeout_ms=timeout_ms, stream_id=5)
        self.quantizer = gqsgd.Quantizer("rotated-4")
        self.values = gradients(self.comm.size)[self.comm.rank]

    def call(self):
        given = self.values.copy()
        try:
            while True:
                self.comm.allreduce(self.values.copy(), self.quantizer, op="mean")
        except gqsgd.GqsgdError as error:
            assert np.array_equal(given, self.values)
            return f"failed {type(error).__name__}: {error}"

    def shrink(self):
        begin = time.monotonic()
        try:
            new = self.comm.shrink()
        except gqsgd.GqsgdError as error:
            return f"{type(error).__name__}: {error}"
        took_ms = (time.monotonic() - begin) * 1000
        self.comm.close()
        self.comm = new.comm
        members = " ".join(map(str, new.members))
        return f"members {members} in {took_ms:.0f} ms; {new.calls}"

    def check(self):
        step, mine = self.comm.counter, gradients(self.comm.size)[self.comm.rank]
        result = self.comm.allreduce(mine, self.quantizer, op="mean")
        expected = gqsgd.simulate(gradients(self.comm.size), self.quantizer, op="mean", step=step,
                                  stream_id=5)
        return "as simulated" if np.array_equal(result, expected) else "not as simulated"


def main():
    rank = Rank(int(sys.argv[1]))
    print("begun", flush=True)
    for line in sys.stdin:
        print(getattr(rank, line.strip())(), flush=True)
    rank.comm.close()


if __name__ == "__main__":
    main()
