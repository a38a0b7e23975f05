"""One check as JSON and as a page of Markdown."""

import json
from pathlib import Path


def read_benches(out):
    """{"256_MiB": what gpu_perf wrote, ..}; sizes that were not measured are not there."""
    found = {}
    for path in sorted(Path(out).glob("bench_*.json"), key=lambda path: -path.stat().st_size):
        try:
            found[path.stem.removeprefix("bench_")] = json.loads(path.read_text())
        except ValueError:
            continue  # cut off with its program, whose result shows it
    return found


def omegas_of(bench):
    """Reductions in code form against the float32 addition of the same run: {format: (time per
    byte, time per value)}, both as multiples."""
    reduces = {row["format"]: row for row in bench["rows"] if row["stage"] == "reduce"}
    plain = reduces.pop("none", None)
    if plain is None:
        return {}
    return {name: (plain["gb_per_s"] / row["gb_per_s"], row["us"] / plain["us"])
            for name, row in reduces.items()}


def page(report):
    """The report for people."""
    device = report["device"]
    lines = [f"# Checked on a device: {device['name']}", "",
             f"`{report['command']}`, {report['date']}, {report['seconds']:.0f} s. Driver "
             f"{device['driver_version']}, {report['toolkit']}; sm_"
             f"{device['compute_cap'].replace('.', '')}, {device['memory.total']}. Clocks as found "
             f"before: SM {device['clocks.sm']} of {device['clocks.max.sm']}, memory "
             f"{device['clocks.mem']} of {device['clocks.max.mem']}; power limit "
             f"{device['power.limit']}. Source {report['source']}.", "",
             *([report["driver"], ""] if report.get("driver") else []),
             "| part | verdict | s | said |", "|---|---|---|---|"]
    for part in report["parts"]:
        said = part["said"].splitlines()[-1] if part["said"] else ""
        lines.append(f"| {part['name']} | {part['verdict']} | {part['seconds']:.1f} | "
                     f"{said.replace('|', '/')} |")
    not_run = [part["name"] for part in report["parts"] if part["verdict"] == "not run"]
    if not_run:
        lines += ["", f"NOT RUN, which counts as a failure: {', '.join(not_run)}."]
    lines += ["", *clock_lines(report["parts"])]
    for name, bench in report["benches"].items():
        lines += ["", *bench_lines(name, bench)]
    for part in report["parts"]:
        is_there = part["name"].removeprefix("bench ") in report["benches"]
        if part["verdict"] == "ok" and "printed" in part and not is_there:
            lines += ["", f"## {part['name']}", "", "```", part["printed"].rstrip(), "```"]
    troubled = [part for part in report["parts"] if part["verdict"] in ("failed", "timed out")]
    for part in troubled:
        lines += ["", f"## {part['name']}: {part['verdict']}", "", f"`{part['command']}`", "",
                  "```", part["said"], "```"]
    return "\n".join(lines) + "\n"


def clock_lines(parts):
    """What clocks were while something was measured."""
    found = [(part["name"], part.get("clocks_mhz")) for part in parts if part.get("clocks_mhz")]
    if not found:
        return ["Clocks under load were not read."]
    return ["Clocks under load, MHz, least to most:", *(
        f"- {name}: SM {clocks['sm'][0]} to {clocks['sm'][1]}, memory {clocks['mem'][0]} to "
        f"{clocks['mem'][1]}" for name, clocks in found)]


def bench_lines(name, bench):
    """The table of one size, and what reductions cost beside a float32 addition."""
    copy = bench["rows"][0]
    lines = [f"## {name.replace('_', ' ')} of float32: {bench['values']} values, "
             f"{bench['sets']} buffer sets, medians of {bench['rounds']} rounds", "",
             f"The copy moves {copy['gb_per_s']:.0f} GB/s, bytes read and written.", "",
             "| stage | format | us | +- | GB/s | of copy | wanted | |",
             "|---|---|---|---|---|---|---|---|"]
    for row in bench["rows"][1:]:
        target = row["target"]
        mark = "" if target == 0 else "reached" if row["of_copy"] >= target else "MISSED"
        lines.append(f"| {row['stage']} | {row['format']} | {row['us']:.2f} | "
                     f"{row['spread_us']:.2f} | {row['gb_per_s']:.0f} | {row['of_copy']:.3f} | "
                     f"{target if target else '-'} | {mark} |")
    omegas = omegas_of(bench)
    if omegas:
        lines += ["", "| reduce against a float32 addition | per byte | per value |",
                  "|---|---|---|"]
        lines += [f"| {name} | {per_byte:.2f} | {per_value:.2f} |"
                  for name, (per_byte, per_value) in omegas.items()]
    return lines
