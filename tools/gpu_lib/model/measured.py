"""docs/results/gpu-h200.md: what the model predicts for an H200, beside what one measured."""

import json

from .fused import Place, call_s, fused_time, kernels_in
from .predict import H200, predictions_of
from .stage_calls import StageCalls

_SIZES = ("256_MiB", "25_MiB")
_CALL_VALUES = ("1024", "65536", "1048576", "2097152", "8388608")
_TOP = """# Stages and calls on an H200, predicted and measured

`tools/gpu_check` ran on one {name} with driver {driver} ({date}, source {source}), and first on
{first_date} with source {first_source}; its reports are [last.json](h200/last.json) and
[first.json](h200/first.json). They compare bits with the CPU in every format, type, tail and
alignment and for more than 1e9 random values, groups of threads and of processes, graphs, memcheck,
racecheck, initcheck and synccheck. {verdict}.
**There was one GPU, so nothing here is over NVLink.**

    tools/gpu_check                 # measures, on a machine with a GPU
    tools/gpu_model --build B       # writes this page from the reports

*predicted* is what [the model](gpu-model.md) says for these kernels with constants that were
written down before the first run: a copy at {bandwidth:.1f} TB/s, {latency:.0f} ns, {clock:.2f}
GHz. The copy of the same run moved {copy:.2f} TB/s. *share* is of that copy's bytes a second.
*first* is the same stage in the first run: [gpu-changes.md](gpu-changes.md) says what was changed
for it, and what is left.
"""
_STAGES = """
## Stages: {size} of float32

| stage | format | predicted us | measured us | measured / predicted | share | target | first us |
|---|---|---|---|---|---|---|---|
"""
_NCCL = """
## Calls over NCCL

Threads that share the GPU, which NCCL's manual does not support: it copies through host memory, so
times of NCCL are not those of a GPU for each rank. What they show is the host's part. Codes by
direct, with `nccl_blocking=off` and with `on`, the default since; medians of `gpu_nccl_perf`,
microseconds until the stream is through, in brackets until all is enqueued.

| ranks | values | format | NCCL's own | off | on |
|---|---|---|---|---|---|
"""
_CALLS = """
## Calls of threads on one device

Microseconds of an allreduce of float32 until the stream is through, by one kernel of each rank
(*fused*) and by stages and copies (`gpu_local_perf --fused 1`); in brackets those of the first run.

| format | ranks | values | fused predicted | fused measured | stages predicted | stages measured |
|---|---|---|---|---|---|---|
"""


def read_reports(folder):
    """(the first report, the last one) of a folder."""
    return tuple(json.loads((folder / f"{name}.json").read_text()) for name in ("first", "last"))


def measured_page(cases, codes, launches, reports):
    first, last = reports
    found = predictions_of(H200, cases, codes)
    page = _TOP.format(
        name=last["device"]["name"], driver=last["device"]["driver_version"], date=last["date"],
        source=last["source"], first_date=first["date"], first_source=first["source"],
        bandwidth=H200.bandwidth / 1e12, latency=H200.latency_s * 1e9, clock=H200.clock_hz / 1e9,
        copy=last["benches"]["256_MiB"]["rows"][0]["gb_per_s"] / 1e3, verdict=verdict_of(reports))
    for size in _SIZES:
        page += _STAGES.format(size=size.replace("_", " "))
        page += "".join(_stage_rows(found, first["benches"][size], last["benches"][size]))
    kernels = kernels_in(cases, codes)
    page += _CALLS + "".join(_call_rows(kernels, StageCalls(H200, found, launches), first, last))
    return page + _NCCL + "".join(_nccl_rows(last))


def verdict_of(reports):
    failed = [(which, part) for which, report in zip(("first", "last"), reports, strict=True)
              for part in report["parts"] if part["verdict"] != "ok"]
    if not failed:
        return "Every part of both was ok"
    def line(which, part):
        said = part["said"].splitlines()[-1][:60]
        return f"*{part['name']}* of the {which} {part['verdict']}, `{said}..`"

    return "Every part of both was ok but these:\n" + ";\n".join(line(*one) for one in failed)


def _stage_rows(found, first, last):
    before = {(row["stage"], row["format"]): row["us"] for row in first["rows"]}
    for row in last["rows"]:
        key = row["stage"], row["format"]
        if key not in found:  # a yardstick
            yield f"| {key[0]} | `{key[1]}` | | {row['us']:.1f} | | {row['of_copy']:.2f} | | |\n"
            continue
        case, prediction = found[key]
        predicted = prediction.seconds / case.values * last["values"] * 1e6
        target = f"{row['target']:.2f}" if row["target"] else ""
        missed = " missed" if row["of_copy"] < row["target"] else ""
        yield (f"| {key[0]} | `{key[1]}` | {predicted:.1f} | {row['us']:.1f} "
               f"| {row['us'] / predicted:.2f} | {row['of_copy']:.2f} | {target}{missed} "
               f"| {before[key]:.1f} |\n")


def _call_rows(kernels, stages, first, last):
    before, after = (calls_in(report) for report in (first, last))
    for form, ranks, values, way in after:
        if way != "fused" or values not in _CALL_VALUES:
            continue
        place = Place(int(ranks), 1)
        one = call_s(H200, fused_time(H200, kernels[form, place.ranks], place, int(values)).seconds)
        many = stages.by_copies_s(form, place, int(values))
        cells = [f"{after[form, ranks, values, name]:.0f} ({before[form, ranks, values, name]:.0f})"
                 for name in ("fused", "stages")]
        yield (f"| `{form}` | {ranks} | {int(values):,} | {one * 1e6:.0f} | {cells[0]} "
               f"| {many * 1e6:.0f} | {cells[1]} |\n")


def calls_in(report):
    """{(format, ranks, values, "fused" or "stages"): microseconds} of part `bench fused`."""
    return {(form, ranks, values, way): float(us)
            for ranks, values, form, way, us, _ in _printed_rows(report, "bench fused")}


def _printed_rows(report, name):
    """Words of each line of a table that a part printed."""
    [printed] = [part["printed"] for part in report["parts"] if part["name"] == name]
    return [line.split() for line in printed.splitlines() if line[:1] == " "]


def _nccl_rows(report):
    found = {}
    for ranks, values, form, way, us, filled_us in _printed_rows(report, "bench nccl"):
        kinds = found.setdefault((ranks, int(values), form), {})
        kinds[way] = f"{float(us):.0f} ({float(filled_us):.0f})"
    for (ranks, values, form), kinds in found.items():
        if ranks == "1":  # no message
            continue
        # As reports of 2026-11-29 call those that do not block.
        kinds.setdefault("not-blocking", kinds.get("direct", ""))
        cells = " | ".join(kinds.get(way, "") for way in ("NCCL's", "not-blocking", "blocking"))
        yield f"| {ranks} | {values:,} | `{form}` | {cells} |\n"
