"""The command line of tools/gpu_check."""

import argparse
import datetime
import json
import os
import subprocess
import sys
import time

from .device import NoDevice, architecture_of, find_device
from .driver import needs_of, too_old
from .machine import awake, program_folders
from .pack import write_pack
from .parts import NOT_RUN, ROOT, all_parts, built_parts, log_of, run_all, targets
from .report import page, read_benches

_QUICK_S, _FULL_S = 115, 470


def main(arguments=None):
    """Status 0: all is well; 1: a part failed, ran out of time or was not run; 77: there is no
    device, and nothing was built elsewhere to be run here."""
    parser = argparse.ArgumentParser(
        description="Builds for this machine's GPU, tests, checks and measures there.",
        epilog="Writes gpu.json, gpu.md and all.log. Status 1: a part failed, ran out of time or "
               "was not run; 77: there is no GPU. Clocks and other settings are left as they are.")
    parser.add_argument("--quick", action="store_true", help="less of each part, below 2 minutes")
    parser.add_argument("--out", default=str(ROOT / "build/gpu_check"), help="folder to write into")
    parser.add_argument("--build", default=str(ROOT / "build/gpu"), help="folder to build in")
    parser.add_argument("--built", metavar="DIR", help="run what was built elsewhere")
    parser.add_argument("--pack", metavar="FILE",
                        help="write what --built needs from --build into a .tar.xz; check nothing")
    options = parser.parse_args(arguments)
    if options.pack:
        return pack(options)
    os.environ["PATH"] = program_folders(os.environ)
    try:
        device = find_device()
    except NoDevice as reason:
        if options.built:
            names = [part.name for part in parts_of(options, None)]
            needs = needs_of((ROOT / options.built).resolve())
            needs = f"; this build needs {needs}" if needs else ""
            print(f"gpu_check: {reason}{needs}; not run: {', '.join(names)}")
            return 1
        print(f"gpu_check: {reason}; nothing was built or checked")
        return NOT_RUN
    with awake():
        return check(device, options)


def pack(options):
    """Writes the archive of --pack."""
    build = (ROOT / options.build).resolve()
    wrong, needs = write_pack(options.pack, ROOT, build, targets(), source()), needs_of(build)
    needs = f", where there is {needs}" if needs else ""
    print(f"gpu_check: {wrong}" if wrong else
          f"{options.pack}: unpack it{needs}, then run gqsgd_check/tools/gpu_check --built build")
    return 1 if wrong else 0


def parts_of(options, device):
    """The parts of this run; a relative --built is below the folder of the check."""
    out = (ROOT / options.out).resolve()
    count = device["count"] if device else 1
    if options.built:
        return built_parts((ROOT / options.built).resolve(), out, options.quick, count)
    return all_parts((ROOT / options.build).resolve(), out, architecture_of(device), options.quick,
                     count)


def check(device, options):
    """Runs all parts and writes both reports."""
    begin = time.monotonic()
    out = (ROOT / options.out).resolve()
    out.mkdir(parents=True, exist_ok=True)
    planned = parts_of(options, device)
    names = [part.name for part in planned]
    remove_pieces(out, names)  # of a check that was ended
    old = too_old((ROOT / (options.built or options.build)).resolve(), device["driver_version"])
    print(f"{device['name']}, driver {device['driver_version']}" + (f". {old}" if old else ""),
          flush=True)
    parts = run_all(planned, out, _QUICK_S if options.quick else _FULL_S)
    report = {
        "command": "tools/gpu_check" + (" --quick" if options.quick else ""),
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "seconds": time.monotonic() - begin,
        "device": device,
        "toolkit": said_by("nvcc", "--version").splitlines()[-1],
        "source": source(),
        "driver": old,
        "parts": parts,
        "benches": read_benches(out),
    }
    (out / "gpu.json").write_text(json.dumps(report, indent=1) + "\n")
    (out / "gpu.md").write_text(page(report))
    (out / "all.log").write_text(all_logs(out, names))
    remove_pieces(out, names)
    sys.stdout.write("\n" + page(report))
    return status_of(parts)


def status_of(parts):
    """What was not run has shown nothing, so it is a failure."""
    return 0 if all(part["verdict"] == "ok" for part in parts) else 1


def remove_pieces(out, names):
    """Logs and numbers of single parts, which all.log and gpu.json have."""
    for file in [*(log_of(out, name) for name in names), *out.glob("bench_*.json")]:
        file.unlink(missing_ok=True)


def source():
    """The commit that is checked, also where the check was packed."""
    packed = ROOT / "source.txt"
    if packed.is_file():
        return packed.read_text().strip()
    return said_by("git", "describe", "--always", "--dirty")


def all_logs(out, names):
    """What all parts of this run printed, for who can take one file along."""
    logs = [(name, log_of(out, name)) for name in names]
    return "".join(f"==== {name}\n{log.read_text(errors='replace')}\n" for name, log in logs
                   if log.exists())


def said_by(*command):
    """What a program prints, for the report; its absence is no reason to lose the rest."""
    try:
        said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=30).stdout
    except (OSError, subprocess.TimeoutExpired):
        said = ""
    return said.strip() or f"{command[0]} says nothing"
