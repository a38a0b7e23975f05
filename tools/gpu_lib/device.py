"""The device of this machine as nvidia-smi reports it; its settings are only read."""

import os
import shutil
import subprocess
import threading

FIELDS = ("name", "driver_version", "compute_cap", "memory.total", "clocks.sm", "clocks.mem",
          "clocks.max.sm", "clocks.max.mem", "power.limit", "persistence_mode", "mig.mode.current")


class NoDevice(Exception):
    """Why there is nothing to check here, as a sentence."""


def find_device():
    """{field: value} of the first GPU, and "count": how many of them one program can use."""
    if shutil.which("nvidia-smi") is None:
        raise NoDevice("this machine has no GPU: there is no nvidia-smi")
    try:
        asked = subprocess.run(
            ["nvidia-smi", f"--query-gpu={','.join(FIELDS)}", "--format=csv,noheader"],
            capture_output=True, text=True, timeout=60)
    except subprocess.TimeoutExpired:
        raise NoDevice("this machine's GPU cannot be used: nvidia-smi does not answer") from None
    lines = asked.stdout.strip().splitlines()
    if asked.returncode != 0 or not lines:
        said = " ".join((asked.stdout + asked.stderr).split()) or "it lists none"
        raise NoDevice(f"this machine has no GPU that can be used: nvidia-smi says: {said}")
    return {**read_device(lines[0]), "count": usable_count(lines, os.environ)}


def usable_count(lines, environment):
    """A program sees one MIG instance at most, and no device that the variable leaves out."""
    if any(read_device(line)["mig.mode.current"] == "Enabled" for line in lines):
        return 1
    visible = environment.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return len(lines)
    return min(len(lines), len([name for name in visible.split(",") if name.strip()]))


def read_device(line):
    """The fields of a line of nvidia-smi's table."""
    values = [value.strip() for value in line.split(",")]
    if len(values) != len(FIELDS):
        raise NoDevice(f"nvidia-smi's answer is not understood: {line}")
    return dict(zip(FIELDS, values, strict=True))


def architecture_of(device):
    """The number that nvcc knows the device by: 90 for 9.0."""
    return device["compute_cap"].replace(".", "")


class ClocksUnderLoad:
    """Clocks in MHz, read now and then while something runs: {"sm": (least, most), "mem": ..}."""

    BEGIN_S, EVERY_S = 2.0, 2.0  # a reading takes the driver's time as well

    def __init__(self, ask=None):
        self._ask = ask or read_clocks
        self._seen, self._ended = [], threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._ended.set()
        self._thread.join(timeout=60)

    def _watch(self):
        wait_s = self.BEGIN_S
        while not self._ended.wait(wait_s):
            clocks = self._ask()
            if clocks is not None and not self._ended.is_set():
                self._seen.append(clocks)
            wait_s = self.EVERY_S

    def found(self):
        """{} if nothing was read."""
        if not self._seen:
            return {}
        sm, mem = zip(*self._seen)
        return {"sm": (min(sm), max(sm)), "mem": (min(mem), max(mem))}


def read_clocks():
    """(SM clock, memory clock) of the first GPU in MHz; None if nvidia-smi does not report them."""
    try:
        said = subprocess.run(
            ["nvidia-smi", "--query-gpu=clocks.sm,clocks.mem", "--format=csv,noheader,nounits"],
            capture_output=True, text=True, timeout=20).stdout
        sm, mem = said.strip().splitlines()[0].split(",")
        return int(sm), int(mem)
    except (OSError, subprocess.TimeoutExpired, IndexError, ValueError):
        return None
