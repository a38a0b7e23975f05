"""Seconds of a kernel from what it executes and asks for, on one device."""

from dataclasses import dataclass
from functools import reduce
from operator import add

WARP = 32


@dataclass(frozen=True)
class Device:
    """An H100 SXM. The first two are what a run is to confirm or refute; the others are its data
    sheet's."""

    bandwidth: float = 2.9e12  #: bytes a second of a copy, read and written
    latency_s: float = 700e-9  #: of a load from memory, while others are under way
    processors: int = 132
    clock_hz: float = 1.755e9
    warps_most: int = 64  #: of a processor
    blocks_most: int = 32
    registers: int = 65536
    shared_bytes: int = 228 * 1024
    link_bandwidth: float = 370e9  #: bytes a second over NVLink, each way
    enqueue_s: float = 2.5e-6  #: of a host, for a launch or a copy
    #: For a collective or group of messages of NCCL, and what that takes longer where the
    #: communicator does not block: NCCL creates a thread. Measured (docs/results/gpu-h200.md).
    enqueue_nccl_s: float = 17e-6
    nccl_thread_s: float = 85e-6

    # Of fused kernels, and of short calls beside them; estimates.
    peer_latency_s: float = 1400e-9  #: of a load from a peer over NVLink: twice latency_s
    cache_latency_s: float = 160e-9  #: of a load that L2 has, some 280 cycles
    #: A flag's way to a peer and into its registers: NCCL's src/graph/tuning.cc has 0.47 and 0.52
    #: microseconds for a step of protocol LL over NVLink.
    peer_flag_s: float = 500e-9
    #: Between two instructions of a warp: 4 if each needs the result of the last one, 1 if none
    #: does; a thread has 16 values.
    warp_issue_cycles: float = 2.0
    message_s: float = 4e-6  #: an operation of NCCL, to begin: device_message_ns of built-in costs
    host_barrier_s: float = 5e-6  #: until hosts have waited for each other: node_latency_ns there


#: The same processors with faster memory, at the clock that such a device keeps under load: a copy
#: by PyTorch moved 4.3 TB/s. Written before this library first ran on one.
H200 = Device(bandwidth=4.3e12, clock_hz=1.98e9)


# Cycles of a processor for a warp's instruction, by pipe: 128 lanes of floats and 64 of integers
# work at a time, 16 of conversions, and 4 warps issue.
_PIPE_CYCLES = {"alu": 1 / 2, "fma": 1 / 4, "slow": 2, "memory": 1}
_ISSUE_CYCLES = 1 / 4
_BLOCK_SHARED_BYTES = 1024  # that the system takes of each block's
_REGISTERS_STEP = 8


def warps_at_once(device, code):
    """Of a processor, as registers and shared memory let them."""
    registers = (code.registers + _REGISTERS_STEP - 1) // _REGISTERS_STEP * _REGISTERS_STEP
    blocks = min(device.blocks_most, device.warps_most * WARP // code.threads,
                 device.registers // (registers * code.threads),
                 device.shared_bytes // (code.shared_bytes + _BLOCK_SHARED_BYTES))
    return blocks * code.threads // WARP


@dataclass(frozen=True)
class Prediction:
    memory_s: float  #: bytes by bandwidth
    latency_s: float  #: loads, as many as are under way together
    issue_s: float  #: instructions, by the busiest pipe

    @property
    def seconds(self):
        return max(self.memory_s, self.latency_s, self.issue_s)

    @property
    def limit(self):
        return {self.memory_s: "memory", self.latency_s: "latency",
                self.issue_s: "instructions"}[self.seconds]

    def __add__(self, other):
        return Prediction(self.memory_s + other.memory_s, self.latency_s + other.latency_s,
                          self.issue_s + other.issue_s)


def predict(device, code, run):
    """Of one kernel over all values of its case."""
    under_way = (device.processors * warps_at_once(device, code) * WARP *
                 max(1, code.bytes_under_way))
    made = run.ptx_instructions * code.growth
    return Prediction(
        memory_s=(run.load_bytes + run.store_bytes) / device.bandwidth,
        latency_s=run.load_bytes / under_way * device.latency_s,
        issue_s=made * issue_cycles(code) / (device.processors * device.clock_hz))


def predictions_of(device, cases, codes):
    """{(stage, format): (case, prediction)}: the kernels of a case follow each other."""
    return {(case.stage, case.format): (case, reduce(add, [
        predict(device, codes[run.kernel], run) for run in case.runs])) for case in cases}


def issue_cycles(code):
    """Of a processor, for each instruction of a warp."""
    return max([_ISSUE_CYCLES] + [code.pipes.get(pipe, 0) * cycles
                                  for pipe, cycles in _PIPE_CYCLES.items()])
