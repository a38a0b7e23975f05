"""docs/results/gpu-model.md."""

from functools import reduce
from operator import add

from .predict import Device, predict, warps_at_once

_CALL_VALUES = 25 * 2**20 // 4
_CALL_RANKS = (1, 2, 4, 8)
# Of a whole call: its format, and the cases of its norm and of its stages.
_CALLS = {"paper-gl8": "paper-gl8", "paper-ge8": "paper-gl8", "paper-gl4": "paper-gl8",
          "blocks-8": "blocks-8", "rotated-8": "rotated-8", "rotated-4": "rotated-8"}
_TOP = """# What stages and calls will take on a GPU

This page is for people who will run this library on a GPU first. It predicts what they will
measure, so that a run has something to confirm or refute. **Nothing here was measured on a
device.**

    tools/gpu_model --build B    # B: -Dcuda=enabled -Dtests=enabled

The two constants that decide are of one H100 SXM, and a first run gives them: the **bandwidth**
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
([gpu-launches.md](gpu-launches.md)) at {enqueue:.1f} microseconds each, beside the device. A call
takes kernels and links, or the host's time if that is longer. What NCCL takes to begin is left
out. Ranks that share a device take turns on it.

| format | ranks | where | kernels | links | host | call |
|---|---|---|---|---|---|---|
"""

_END = """
Over NVLink the bytes of float32 by NCCL take {floats:.0f} microseconds, those of 16 bits
{halves:.0f}. On eight GPUs of one machine {faster} predicted to be faster than 16 bits, before
what NCCL takes to begin; formats whose kernels execute more instructions are for links that are
slower.

## What it leaves out

The mix of pipes is that of a kernel's whole code and not of its hot path; bytes under way are the
most that any path has. Tails of a launch, caches, and the time of a launch on the device are not
in it: shares near 1 mean that memory decides, not that nothing else takes time.
"""


def page(cases, codes, launches, device=None):
    device = device or Device()
    found = {(case.stage, case.format): (case, reduce(add, [
        predict(device, codes[run.kernel], run) for run in case.runs])) for case in cases}
    text = _TOP.format(bandwidth=device.bandwidth / 1e12, latency=device.latency_s * 1e9,
                       processors=device.processors, clock=device.clock_hz / 1e9)
    text += "".join(_stage_row(device, *entry, codes) for entry in found.values())
    text += _CALLS_TEXT.format(link=device.link_bandwidth / 1e9, enqueue=device.enqueue_s * 1e6)
    rows = list(_call_rows(device, found, launches))
    text += "".join(row for _, _, row in rows)
    floats = 2 * 7 / 8 * 4 * _CALL_VALUES / device.link_bandwidth
    return text + _END.format(floats=floats * 1e6, halves=floats / 2 * 1e6,
                              faster=_faster_than(floats / 2, rows))


def _faster_than(seconds, rows):
    names = [f"`{form}`" for form, call, row in rows if "8 devices" in row and call < seconds]
    if not names:
        return "no format is"
    return f"{' and '.join(names)} {'is' if len(names) == 1 else 'are'}"


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


def _call_rows(device, found, launches):
    for form, norm in _CALLS.items():
        seconds = {}
        for stage, name in (("norm", norm), ("quantize", form), ("reduce_many n=8", form),
                            ("dequantize", form)):
            case, prediction = found[stage, name]
            seconds[stage] = prediction.seconds / case.values * _CALL_VALUES
        whole = seconds["norm"] + seconds["quantize"] + seconds["dequantize"]
        for ranks in _CALL_RANKS:
            kernels = ranks * whole + seconds["reduce_many n=8"] * (ranks + 1) / 9
            yield _call_row(device, form, ranks, "one device", kernels, 0.0, launches)
        bits = int(form[-1])
        links = 2 * 7 / 8 * bits / 8 * _CALL_VALUES / device.link_bandwidth
        kernels = whole + seconds["reduce_many n=8"] / 8
        yield _call_row(device, form, 8, "8 devices", kernels, links, launches)


def _call_row(device, form, ranks, where, kernels, links, launches):
    host = launches["paper" if form.startswith("paper") else "blocks"] * device.enqueue_s
    call = max(kernels + links, host)
    numbers = " | ".join(f"{1e6 * part:.0f}" for part in (kernels, links, host, call))
    return form, call, f"| `{form}` | {ranks} | {where} | {numbers} |\n"
