"""Seconds of a call that is one fused kernel of each rank (kernels/cuda/fused): what a call begins
with, four stages, three barriers.

A stage ends when its busiest block has ended. A block takes one tile after the other, and its few
warps do not hide what each of them waits for: that is the difference to a kernel of a stage.
"""

from dataclasses import dataclass
from math import ceil

from .predict import WARP, issue_cycles, warps_at_once

# As in kernels/fused.h and kernels/cuda/fused.
BLOCKS_MOST = 128
TILE_VALUES = 4096
BLOCK_THREADS = 256
THREAD_VALUES = TILE_VALUES // BLOCK_THREADS
VALUES_MOST = 2**23
FLOAT_BYTES = 4
STAGES = ("norm", "quantize", "reduce_many", "dequantize")


@dataclass(frozen=True)
class Kernel:
    """The kernel of a format, for a number of ranks: a case for each stage that is in it."""

    ranks: int
    bits: int  #: of a code; 32: float32
    code: object  #: kernels.Code
    sum_bytes_under_way: int  #: of a thread, while it adds
    stages: dict  #: by name: kernels.Run, over `values` of a call
    values: int
    beside: object  #: kernels.Run: what a block executes once
    norm_of_call: bool  #: one for all values, so that its barrier is one of all blocks

    def per_value(self, count):
        return count / self.values


@dataclass(frozen=True)
class Place:
    """Where ranks are: all on one device, or each on its own."""

    ranks: int
    devices: int

    @property
    def ranks_here(self):
        return self.ranks // self.devices

    @property
    def over_links(self):
        return self.devices > 1


@dataclass(frozen=True)
class Work:
    """How the blocks of a rank divide a call."""

    blocks: int
    tiles: int  #: of the busiest block
    own_tiles: int  #: those of its rank's shard
    tile_values: int  #: in the fullest tile


def work_of(device, place, values, blocks_at_once):
    """As FusedShare and FusedTiles do; blocks_at_once: of a processor."""
    share = min(BLOCKS_MOST, blocks_at_once * device.processors // 2 // place.ranks_here)
    shard = ceil(values / place.ranks)
    per_shard = ceil(shard / TILE_VALUES)
    blocks = min(share, per_shard * place.ranks)
    return Work(blocks, ceil(per_shard * place.ranks / blocks), ceil(per_shard / blocks),
                min(shard, TILE_VALUES))


@dataclass(frozen=True)
class StageTime:
    """What a stage in a fused kernel waits for; the longest decides."""

    memory_s: float  #: bytes of all ranks of a device, by its bandwidth
    links_s: float  #: what peers have
    warp_s: float  #: of the busiest block: for each tile its loads, then its instructions
    issue_s: float  #: instructions of the busiest processor

    @property
    def seconds(self):
        return max(self.memory_s, self.links_s, self.warp_s, self.issue_s)


@dataclass(frozen=True)
class FusedTime:
    begin_s: float
    stages: dict  #: StageTime by name
    barriers_s: float

    @property
    def seconds(self):
        return (self.begin_s + self.barriers_s +
                sum(stage.seconds for stage in self.stages.values()))


def fused_time(device, kernel, place, values):
    """Of the kernel, from its first instruction on."""
    at_once = warps_at_once(device, kernel.code) * WARP // kernel.code.threads
    work = work_of(device, place, values, at_once)
    stages = {name: _stage_time(device, kernel, place, work, values, name) for name in STAGES}
    warps = kernel.code.threads // WARP
    beside = kernel.beside.ptx_instructions / warps * kernel.code.growth
    begin_s = device.latency_s + beside * device.warp_issue_cycles / device.clock_hz
    return FusedTime(begin_s, stages, sum(barrier_times(device, kernel, place, work)))


def call_s(device, kernel_s):
    """Hosts exchange their control messages before they enqueue the kernel."""
    return device.host_barrier_s + device.enqueue_s + kernel_s


def _stage_time(device, kernel, place, work, values, name):
    run, code = kernel.stages[name], kernel.code
    tiles = work.own_tiles if name == "reduce_many" else work.tiles
    # In a stage of sums a rank has values of its own shard alone.
    counted = kernel.values / kernel.ranks if name == "reduce_many" else kernel.values
    made = run.ptx_instructions / counted * code.growth  # for each value of a tile
    warp_values = WARP * THREAD_VALUES
    warp_s = made * warp_values * device.warp_issue_cycles / device.clock_hz
    processors = min(device.processors, work.blocks * place.ranks_here)
    blocks_here = ceil(work.blocks * place.ranks_here / processors)
    issued = made * blocks_here * tiles * work.tile_values
    return StageTime(
        memory_s=(place.ranks_here * kernel.per_value(run.load_bytes + run.store_bytes) * values /
                  device.bandwidth),
        links_s=_link_bytes(kernel, place, name) * values / device.link_bandwidth,
        warp_s=tiles * (loads_s(device, kernel, place, name) + warp_s) if made else 0.0,
        issue_s=issued * issue_cycles(code) / device.clock_hz)


def _link_bytes(kernel, place, name):
    """For each value of the call, from peers: all that is loaded but the rank's own values."""
    if not place.over_links:
        return 0.0
    own = FLOAT_BYTES if name in ("norm", "quantize") else 0
    loaded = kernel.per_value(kernel.stages[name].load_bytes)
    return max(0.0, loaded - own) * (kernel.ranks - 1) / kernel.ranks


def loads_s(device, kernel, place, name):
    """That a thread waits for loads of a tile, as many as are under way together."""
    peer_s = device.peer_latency_s if place.over_links else device.latency_s
    code_bytes = THREAD_VALUES * kernel.bits // 8
    if name == "reduce_many":
        return ceil(kernel.ranks * code_bytes / kernel.sum_bytes_under_way) * peer_s
    if name == "dequantize":  # a tile is of one rank
        mean_s = (peer_s * (kernel.ranks - 1) + device.latency_s) / kernel.ranks
        return ceil(code_bytes / kernel.code.bytes_under_way) * mean_s
    values_s = ceil(THREAD_VALUES * FLOAT_BYTES / kernel.code.bytes_under_way) * device.latency_s
    reads_norms = name == "quantize" and _link_bytes(kernel, place, name) > 0
    return max(values_s, peer_s) if reads_norms else values_s


def barrier_times(device, kernel, place, work):
    """For norms, codes and sums."""
    same, every = kernel.ranks, kernel.ranks * work.blocks  # words that a block waits for
    agree_s = 2 * device.cache_latency_s  # the blocks of a rank on what the first one found
    return (barrier_s(device, place, every if kernel.norm_of_call else same),
            barrier_s(device, place, same),
            barrier_s(device, place, every) + agree_s)


def barrier_s(device, place, words):
    """Two fences, a flag's way between them, and the words that a thread has beyond its first."""
    flag_s = device.peer_flag_s if place.over_links else 2 * device.cache_latency_s
    return (2 * device.latency_s + flag_s +
            (ceil(words / BLOCK_THREADS) - 1) * device.cache_latency_s)


def is_in_fused(case):
    """Whether it is a part of a fused kernel, and no stage."""
    return case.stage.startswith("fused ")


def kernels_in(cases, codes):
    """{(format, ranks): Kernel} of the cases that are stages of fused kernels."""
    found = {(case.stage, case.format): case for case in cases}
    kernels = {}
    for case in cases:
        if not case.stage.startswith("fused beside n="):
            continue
        ranks, form = int(case.stage.partition("=")[2]), case.format
        run = case.runs[0]
        sums = found.get(("reduce_many n=8", form)) or found["reduce", form]
        kernels[form, ranks] = Kernel(
            ranks=ranks, bits=32 if form == "none" else int(form[-1]), code=codes[run.kernel],
            sum_bytes_under_way=codes[sums.runs[0].kernel].bytes_under_way,
            stages={name: found[f"fused {name} n={ranks}", form].runs[0] for name in STAGES},
            values=case.values, beside=run, norm_of_call=form.startswith("paper"))
    return kernels
