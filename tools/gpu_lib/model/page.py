"""docs/results/gpu-model.md."""

from typing import NamedTuple

from .fused import Place, is_in_fused
from .fused_page import fused_part
from .predict import Device, predict, predictions_of, warps_at_once
from .stage_calls import StageCalls

_CALL_VALUES = 25 * 2**20 // 4
_CALL_PLACES = (*(Place(ranks, 1) for ranks in (1, 2, 4, 8)), Place(8, 8))
_CALLS = ("paper-gl8", "paper-ge8", "paper-gl4", "blocks-8", "rotated-8", "rotated-4")
_TOP = """# What stages and calls will take on a GPU

This page is for people who run this library on GPUs, or change its kernels. It predicts what they
will measure. **Nothing here was measured**: [gpu-h200.md](gpu-h200.md) has the same predictions for
an H200 beside measurements, which say how far to trust them: memory and latency to a tenth,
instructions to a factor of 1.5 to 2, because warps wait for each other's results.

    tools/gpu_model --build B    # B: -Dcuda=enabled -Dtests=enabled

The two constants that decide are of one H100 SXM: the **bandwidth**
of a copy, {bandwidth:.1f} TB/s read and written, and the **latency** of a load while others are
under way, {latency:.0f} ns. The rest is its data sheet: {processors} processors at {clock:.3f}
GHz, 64 warps, 65,536 registers and 228 KiB of shared memory each.

## Stages

A stage takes the longest of three times.

- *memory*: the sectors that its warps touch ([gpu-memory.md](gpu-memory.md)) by the bandwidth;
- *latency*: its loads, as many as are under way together: warps that registers and shared memory
  let run at once, times the bytes that a thread loads before it uses the first of them, both read
  from the machine code for sm_90;
- *issue*: the instructions that its warps execute, counted in PTX where its kernels are executed
  and multiplied by how many of the machine a kernel has for each, by the busiest pipe or the issue
  of 4 a cycle. Accesses of memory, shared memory and other lanes count for each word of a lane.

Times are nanoseconds for 1,000 values, *all* the longest of the three. *share* is of the copy's
bandwidth, for the bytes that the stage has to move; *target* is what gpu_perf asks for. Values are
float32, *n* operands for `reduce_many`, Rice codes those of values like gradients; *warps* are
those of a processor at once, *bytes* those of a thread under way.

| stage | format | registers | warps | bytes | memory | latency | issue | all | share | target |
|---|---|---|---|---|---|---|---|---|---|---|
"""

_CALLS_TEXT = """
## Whole calls

25 MiB of float32, schedule direct, one chunk, microseconds. *kernels* are the stages above;
*links* the codes by {link:.0f} GB/s of NVLink each way; *host* what it enqueues
([gpu-launches.md](gpu-launches.md)), beside the device: {enqueue:.1f} microseconds for a kernel,
{nccl:.0f} for an operation of NCCL, as on an H200. A call takes kernels and links, or the host's
time if that is longer. What NCCL takes to begin is left out. Ranks that share a device take turns
on it.

*thread host* and *thread call* are with `nccl_blocking=off`: recent versions of NCCL create a
thread for each operation of a communicator that does not block, which takes the host {thread:.0f}
microseconds more on an H200.

| format | ranks | where | kernels | links | host | call | thread host | thread call |
|---|---|---|---|---|---|---|---|---|
"""

_END = """
Over NVLink the bytes of float32 by NCCL take {floats:.0f} microseconds, those of 16 bits
{halves:.0f}. On eight GPUs of one machine {faster} predicted to be faster than 16 bits by a
communicator that blocks, {threads_faster} by one that does not, before what NCCL takes to begin;
formats whose kernels execute more instructions are for links that are slower.
"""

_OMITTED = """
## What it leaves out

The mix of pipes is that of a kernel's whole code and not of its hot path; bytes under way are the
most that any path has. Tails of a launch, caches, and the time of a launch on the device are not
in it: shares near 1 mean that memory decides, not that nothing else takes time.
"""


class _Call(NamedTuple):
    form: str
    call: float  #: seconds, by a communicator that blocks
    thread_call: float
    text: str


def page(cases, codes, launches, device=None):
    device = device or Device()
    found = predictions_of(device, cases, codes)
    text = _TOP.format(bandwidth=device.bandwidth / 1e12, latency=device.latency_s * 1e9,
                       processors=device.processors, clock=device.clock_hz / 1e9)
    text += "".join(_stage_row(device, *entry, codes) for entry in found.values()
                    if not is_in_fused(entry[0]))
    text += _CALLS_TEXT.format(link=device.link_bandwidth / 1e9, enqueue=device.enqueue_s * 1e6,
                              nccl=device.enqueue_nccl_s * 1e6,
                              thread=device.nccl_thread_s * 1e6)
    rows = list(_call_rows(StageCalls(device, found, launches)))
    text += "".join(row.text for row in rows)
    floats = 2 * 7 / 8 * 4 * _CALL_VALUES / device.link_bandwidth
    text += _END.format(floats=floats * 1e6, halves=floats / 2 * 1e6,
                        faster=_is_or_are(_faster_than(floats / 2, rows, "call")),
                        threads_faster=" and ".join(
                            _faster_than(floats / 2, rows, "thread_call")) or "none")
    return text + fused_part(device, found, launches, cases, codes) + _OMITTED


def _faster_than(seconds, rows, call):
    return [f"`{row.form}`" for row in rows
            if "8 devices" in row.text and getattr(row, call) < seconds]


def _is_or_are(names):
    return f"{' and '.join(names) or 'no format'} {'is' if len(names) < 2 else 'are'}"


def share_of(device, case, prediction):
    return case.bytes_per_value * case.values / device.bandwidth / prediction.seconds


def _stage_row(device, case, prediction, codes):
    longest = max(case.runs, key=lambda run: predict(device, codes[run.kernel], run).seconds)
    code = codes[longest.kernel]
    ns = [f"{1e12 * part / case.values:.1f}" for part in (
        prediction.memory_s, prediction.latency_s, prediction.issue_s, prediction.seconds)]
    share = share_of(device, case, prediction)
    target = f"{case.target:.2f}{'' if share >= case.target else ' missed'}" if case.target else ""
    return (f"| {case.stage} | `{case.format}` | {code.registers} | {warps_at_once(device, code)} "
            f"| {code.bytes_under_way} | {' | '.join(ns)} | {share:.2f} | {target} |\n")


def _call_rows(stages):
    for form in _CALLS:
        for place in _CALL_PLACES:
            yield _call_row(stages, form, place)


def _call_row(stages, form, place):
    kernels, links = stages.device_s(form, place, _CALL_VALUES)
    host, thread_host = stages.host_s(form)
    call, thread_call = max(kernels + links, host), max(kernels + links, thread_host)
    numbers = " | ".join(f"{1e6 * part:.0f}"
                         for part in (kernels, links, host, call, thread_host, thread_call))
    where = f"{place.devices} devices" if place.over_links else "one device"
    return _Call(form, call, thread_call, f"| `{form}` | {place.ranks} | {where} | {numbers} |\n")
