"""The command line of tools/gpu_check."""

import argparse
import datetime
import json
import os
import subprocess
import sys
import time

from .device import NoDevice, architecture_of, find_device
from .machine import awake, program_folders
from .parts import NOT_RUN, ROOT, all_parts, log_of, run_all
from .report import page, read_benches

_QUICK_S, _FULL_S = 115, 470


def main(arguments=None):
    """Status 0: all is well; 1: a part failed or ran out of time; 77: there is no device."""
    parser = argparse.ArgumentParser(
        description="Builds for this machine's GPU, tests, checks and measures there.",
        epilog="Writes gpu.json, gpu.md, a log of each part and all of them in all.log. Status 1: "
               "a part failed or ran out of time; 77: there is no GPU. Clocks and other settings "
               "are left as they are.")
    parser.add_argument("--quick", action="store_true", help="less of each part, below 2 minutes")
    parser.add_argument("--out", default=str(ROOT / "build/gpu_check"), help="folder to write into")
    parser.add_argument("--build", default=str(ROOT / "build/gpu"), help="folder to build in")
    options = parser.parse_args(arguments)
    os.environ["PATH"] = program_folders(os.environ)
    try:
        device = find_device()
    except NoDevice as reason:
        print(f"gpu_check: {reason}; nothing was built or checked")
        return NOT_RUN
    with awake():
        return check(device, options)


def check(device, options):
    """Runs all parts and writes both reports."""
    begin = time.monotonic()
    out, build = (ROOT / options.out).resolve(), (ROOT / options.build).resolve()
    out.mkdir(parents=True, exist_ok=True)
    for old in out.glob("bench_*.json"):
        old.unlink()
    print(f"{device['name']}, driver {device['driver_version']}", flush=True)
    parts = run_all(all_parts(build, out, architecture_of(device), options.quick), out,
                    _QUICK_S if options.quick else _FULL_S)
    report = {
        "command": "tools/gpu_check" + (" --quick" if options.quick else ""),
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "seconds": time.monotonic() - begin,
        "device": device,
        "toolkit": said_by("nvcc", "--version").splitlines()[-1],
        "source": said_by("git", "describe", "--always", "--dirty"),
        "parts": parts,
        "benches": read_benches(out),
    }
    (out / "gpu.json").write_text(json.dumps(report, indent=1) + "\n")
    (out / "gpu.md").write_text(page(report))
    (out / "all.log").write_text(all_logs(out, parts))
    sys.stdout.write("\n" + page(report))
    return 1 if any(part["verdict"] in ("failed", "timed out") for part in parts) else 0


def all_logs(out, parts):
    """What all parts of this run printed, for who can take one file along."""
    logs = [(part["name"], log_of(out, part["name"])) for part in parts if part["seconds"] > 0]
    return "".join(f"==== {name}\n{log.read_text(errors='replace')}\n" for name, log in logs)


def said_by(*command):
    """What a program prints, for the report; its absence is no reason to lose the rest."""
    try:
        said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=30).stdout
    except (OSError, subprocess.TimeoutExpired):
        said = ""
    return said.strip() or f"{command[0]} says nothing"
