"""The device of this machine as nvidia-smi tells of it; its settings are only read."""

import shutil
import subprocess

FIELDS = ("name", "driver_version", "compute_cap", "memory.total", "clocks.sm", "clocks.mem",
          "clocks.max.sm", "clocks.max.mem", "power.limit", "persistence_mode", "mig.mode.current")


class NoDevice(Exception):
    """Why there is nothing to check here, as a sentence."""


def find_device():
    """{field: value} of the first GPU."""
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
    return read_device(lines[0])


def read_device(line):
    """The fields of a line of nvidia-smi's table."""
    values = [value.strip() for value in line.split(",")]
    if len(values) != len(FIELDS):
        raise NoDevice(f"nvidia-smi's answer is not understood: {line}")
    return dict(zip(FIELDS, values, strict=True))


def architecture_of(device):
    """The number that nvcc knows the device by: 90 for 9.0."""
    return device["compute_cap"].replace(".", "")
