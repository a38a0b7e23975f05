"""What is known of each kernel: what its warps execute, counted, and its machine code."""

import json
import os
import re
import subprocess
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from gpu_lib.machine_code import (
    assemble,
    bytes_under_way,
    cost_of,
    entries_in,
    functions,
    instructions,
    pipe_of,
    registers_in,
    shared_bytes_in,
)

SECTOR_BYTES = 32


@dataclass(frozen=True)
class Code:
    """A kernel as the device has it."""

    threads: int  #: of a block
    registers: int
    shared_bytes: int
    bytes_under_way: int  #: of a thread's loads
    pipes: dict  #: what its instructions cost each pipe, by their number
    growth: float  #: machine instructions for each of PTX


@dataclass(frozen=True)
class Run:
    """A kernel of a case, over all its values."""

    kernel: str
    ptx_instructions: int  #: of warps
    load_bytes: int
    store_bytes: int


@dataclass(frozen=True)
class Case:
    stage: str
    format: str
    bytes_per_value: float
    target: float  #: share of the copy's bandwidth; 0: none was set
    values: int
    runs: tuple


def ptx_test(build):
    """Command and environment of the test ptx_memory."""
    text = subprocess.run(["meson", "introspect", "--tests", build], check=True,
                          capture_output=True, text=True).stdout
    for test in json.loads(text):
        if test["name"] == "ptx_memory":
            return test["cmd"], test["env"]
    raise SystemExit(f"{build} has no test ptx_memory: build with -Dcuda=enabled -Dtests=enabled")


def cases_of(command, environment):
    """In the order of gpu_perf."""
    result = subprocess.run([command[0], "--counts"], check=True, stdout=subprocess.PIPE, text=True,
                            env={**os.environ, **environment})
    found = {}
    for line in result.stdout.splitlines():
        stage, form, size_bytes, target, values, kernel, made, loads, stores = line.split("\t")
        run = Run(kernel, int(made), SECTOR_BYTES * int(loads), SECTOR_BYTES * int(stores))
        found.setdefault((stage, form, float(size_bytes), float(target), int(values)),
                         []).append(run)
    return [Case(*key, tuple(runs)) for key, runs in found.items()]


def codes_of(ptx_files, wanted):
    """{kernel: Code} of the kernels in `wanted`."""
    found = {}
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(2) as pool:
        for codes in pool.map(lambda path: _codes_in(path, Path(folder), wanted),
                              map(Path, ptx_files)):
            found |= codes
    if missing := wanted - found.keys():
        raise SystemExit(f"no machine code of {', '.join(sorted(missing))}")
    return found


def _codes_in(path, folder, wanted):
    entries = entries_in(path.read_text())
    names = wanted & entries.keys()  # one in three or so
    if not names:
        return {}
    cubin = folder / f"{path.stem}.cubin"
    report = assemble(path, names, cubin)
    registers, shared = registers_in(report), shared_bytes_in(report)
    found = {}
    for name, lines in functions(cubin).items():
        if name not in wanted:
            continue
        made = instructions(lines)
        pipes = Counter()
        for instruction in made:
            pipes[pipe_of(instruction)] += cost_of(instruction)
        threads = re.search(r"\.maxntid (\d+)", entries[name])
        found[name] = Code(
            threads=int(threads.group(1)) if threads else 256, registers=registers[name],
            shared_bytes=shared[name], bytes_under_way=bytes_under_way(lines),
            pipes={pipe: count / len(made) for pipe, count in pipes.items()},
            growth=len(made) / _statements(entries[name]))
    return found


def _statements(body):
    """Instructions of PTX: lines that end in a semicolon and declare nothing."""
    lines = (line.strip() for line in body.partition("{")[2].splitlines())
    return sum(1 for line in lines if line.endswith(";") and not line.startswith("."))
