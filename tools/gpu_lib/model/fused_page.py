"""The part of docs/results/gpu-model.md on calls that are one fused kernel of each rank."""

from dataclasses import replace

from .fused import STAGES, VALUES_MOST, Place, call_s, fused_time, kernels_in, work_of
from .stage_calls import StageCalls

_FORMATS = ("paper-gl8", "paper-ge8", "paper-gl4", "blocks-8", "none")
_SIZES = (2**12, 2**16, 2**20, 2**21, 2**23)
_FARTHEST = 2**26  # values of a call; how far a faster kernel is looked for
_DEVICES = 8
_RANKS_ON_ONE = (2, 4, 8)
_HEADING = "\n## Calls that are one kernel\n"
_TEXT = _HEADING + """
A short allreduce of a group of threads or processes is one
[fused kernel](../CUDA.md#fused-kernels) of each rank: *norm*, *quantize*, *sum* of the own shard,
*dequantize*, with a barrier of all ranks behind each of the first three. Float32 has no norm.

Each of the four takes the longest of four times: the bytes of a device's ranks by the bandwidth;
what ranks load from peers by the links; the instructions of the busiest processor; and the busiest
block, which takes one tile of 4,096 values after the other: its warps wait for their loads, then
execute their instructions. On {devices} devices a rank has {blocks} blocks of 8 warps, one on a
processor, where a stage has 16 warps or more, so the last time is often the longest. Instructions
and sectors are counted in the kernel of one rank, which finds what peers would have written;
registers, pipes and bytes under way are read from its machine code.

Beside the constants above these decide. All but the flag's are estimates:

| constant | value | of |
|---|---|---|
| `peer_latency_s` | {peer:.0f} ns | a load from a peer over NVLink, twice that of own memory |
| `peer_flag_s` | {flag:.0f} ns | a flag, from the store to the peer that sees it: NCCL's \
`src/graph/tuning.cc` has 470 and 520 for a step of protocol LL |
| `cache_latency_s` | {cache:.0f} ns | a load that L2 has; a flag on the same device takes two |
| `warp_issue_cycles` | {cycles:.0f} | cycles between two instructions of a warp: 4 if each needs \
the last one's result, 1 if none does |
| `host_barrier_s` | {hosts:.0f} us | hosts that wait for each other, as on host memory \
([COST.md](../COST.md)) |
| `message_s` | {message:.0f} us | an operation of NCCL, to begin, as there |

A barrier takes two fences, each as long as a load, a flag between them, and a load from L2 for
each word beyond a thread's first. That for one norm, and the last one, are for all blocks of all
ranks, the others for those of one number. *call* is a call alone: hosts wait for each other and
enqueue the kernel ({enqueue:.1f} microseconds), and it runs. In a graph a call takes *kernel*.

*stages* is the same call of the same group by stages and copies: kernels and links as above, two
barriers of hosts for each exchange, {enqueue:.1f} microseconds for each launch and copy. Processes
wait for their stream before each of them, so nothing overlaps; hosts of threads run ahead of the
device. *NCCL* and *NCCL, threads* are calls by stages over NCCL, by a communicator that blocks and
by one that does not, with what kernels ({latency:.1f} microseconds) and operations take to begin,
as [`gqsgd-plan --nccl`](../COST.md#over-nccl) counts; for `none` NCCL's own sum of float32.

On {devices} devices over NVLink, processes, microseconds; *speed-up* is stages to call:

| format | values | norm | quantize | sum | dequantize | barriers | kernel | call | stages \
| speed-up | NCCL | NCCL, threads |
|---|---|---|---|---|---|---|---|---|---|---|---|---|
"""
_ONE_DEVICE = """
Threads on one device divide its blocks: {blocks}. Call by one kernel / by stages, microseconds:

| format | ranks | {sizes} |
|---|---|{lines}|
"""
_LIMITS = """
**The limit** is what the memory of codes holds. Up to how many values a call by one kernel is
predicted to be faster than by stages, to an eighth of a power of two, whatever the limit; and
microseconds of the kernel on {devices} devices at the limit if a warp waits for other cycles
between two instructions:

| format | limit | {devices} devices | one device, 2 ranks | 4 ranks | 8 ranks | 1 cycle \
| {cycles:.0f} cycles | 4 cycles |
|---|---|---|---|---|---|---|---|---|
{rows}
{verdict}

`tools/gpu_check` measures calls of threads from 2^10 to 2^23 values, rows *fused* and *stages* of
`paper-gl8`, `blocks-8` and `none` (`gpu_local_perf --fused 1`). Part *bench fused* has ranks on one
device, to confirm or refute the second table. Part *bench fused devices*, where there are two GPUs
or more, has ranks with a device each: their *fused* is *call* of the first table, but their
*stages* do not wait for streams.
"""


def fused_part(device, found, launches, cases, codes):
    """`found`: {(stage, format): (case, prediction)}; the cases are those of fused kernels, too."""
    kernels = kernels_in(cases, codes)
    stages = StageCalls(device, found, launches)
    links = Place(_DEVICES, _DEVICES)
    text = _TEXT.format(
        blocks=work_of(device, links, VALUES_MOST, 2).blocks, devices=_DEVICES,
        peer=device.peer_latency_s * 1e9, flag=device.peer_flag_s * 1e9,
        cache=device.cache_latency_s * 1e9, cycles=device.warp_issue_cycles,
        hosts=device.host_barrier_s * 1e6, latency=device.latency_s * 1e6,
        message=device.message_s * 1e6, enqueue=device.enqueue_s * 1e6)
    for form in _FORMATS:
        for values in _SIZES:
            text += _row(device, kernels[form, _DEVICES], links, stages, form, values)
    text += _one_device(device, kernels, stages)
    return text + _limits(device, kernels, stages, links)


def limit_of(form):
    return VALUES_MOST // 4 if form == "none" else VALUES_MOST


def _us(seconds):
    return f"{seconds * 1e6:.1f}" if seconds < 99.95e-6 else f"{seconds * 1e6:.0f}"


def _row(device, kernel, place, stages, form, values):
    time = fused_time(device, kernel, place, values)
    call, by_stages = call_s(device, time.seconds), stages.by_copies_s(form, place, values)
    parts = [*(time.stages[name].seconds for name in STAGES), time.barriers_s, time.seconds, call,
             by_stages]
    size = f"{values:,}{'' if values <= limit_of(form) else ', beyond the limit'}"
    return (f"| `{form}` | {size} | {' | '.join(map(_us, parts))} | {by_stages / call:.1f}x "
            f"| {' | '.join(map(_us, stages.times(form, place, values)))} |\n")


def _one_device(device, kernels, stages):
    blocks = ", ".join(f"{work_of(device, Place(n, 1), VALUES_MOST, 2).blocks} each for {n}"
                       for n in _RANKS_ON_ONE)
    text = _ONE_DEVICE.format(blocks=blocks, sizes=" | ".join(f"{n:,}" for n in _SIZES),
                              lines="|".join("---" for _ in _SIZES))
    for form in _FORMATS:
        for ranks in _RANKS_ON_ONE:
            place = Place(ranks, 1)
            cells = [f"{_us(_call(device, kernels[form, ranks], place, values))} / "
                     f"{_us(stages.by_copies_s(form, place, values))}" for values in _SIZES]
            text += f"| `{form}` | {ranks} | {' | '.join(cells)} |\n"
    return text


def _call(device, kernel, place, values):
    return call_s(device, fused_time(device, kernel, place, values).seconds)


def _limits(device, kernels, stages, links):
    rows, at_limit = "", {}
    places = (links, *(Place(ranks, 1) for ranks in _RANKS_ON_ONE))
    for form in _FORMATS:
        limit = limit_of(form)

        def gain(place, values, form=form):
            call = _call(device, kernels[form, place.ranks], place, values)
            return stages.by_copies_s(form, place, values) / call

        up_to = [faster_up_to(lambda values, place=place: gain(place, values) > 1)
                 for place in places]
        at_limit |= {(form, place): gain(place, limit) for place in places}
        kernel_us = [_us(fused_time(replace(device, warp_issue_cycles=cycles),
                                    kernels[form, _DEVICES], links, limit).seconds)
                     for cycles in (1.0, device.warp_issue_cycles, 4.0)]
        rows += (f"| `{form}` | {limit:,} | {' | '.join(map(_count, up_to))} "
                 f"| {' | '.join(kernel_us)} |\n")
    return _LIMITS.format(devices=_DEVICES, rows=rows, cycles=device.warp_issue_cycles,
                          verdict="\n".join(map(_verdict, (f"{_DEVICES} devices", "one device"),
                                               _split(at_limit))))


def _split(at_limit):
    """Of ranks with a device each, and of ranks on one."""
    for over_links in (True, False):
        yield {case: gain for case, gain in at_limit.items() if case[1].over_links == over_links}


def _verdict(where, gains):
    """gains: {(format, place): speed-up of one kernel at the limit}."""
    (form, place), least = min(gains.items(), key=lambda item: item[1])
    if least > 1:
        return (f"On {where} one kernel is the faster way up to the limit in each of these "
                f"formats,\nat it by {least:.1f}x or more.")
    return (f"On {where} stages are the faster way below the limit already, at it by up to "
            f"{1 / least:.1f}x\n(`{form}`, {place.ranks} ranks).")


def faster_up_to(is_faster):
    """Values below the first number for which it does not hold; _FARTHEST as far as is looked."""
    most = 0
    for eighths in range(8 * 12, 8 * (_FARTHEST.bit_length() - 1)):
        values = (8 + eighths % 8) << eighths // 8 - 3
        if not is_faster(values):
            return most
        most = values
    return _FARTHEST


def _count(values):
    return f"{values:,}" if values < _FARTHEST else f"{values:,} or more"
