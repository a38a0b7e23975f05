"""Machine code for sm_90 as nvdisasm prints it: instructions by function, their pipes, loads that
are under way together."""

import importlib.util
import re
import shutil
import subprocess
from pathlib import Path

_ENTRY = re.compile(r"\.entry (\S+?)\((.*?)^}", re.DOTALL | re.MULTILINE)
_FUNCTION = re.compile(r"^\.text\.(\S+):")
LABEL = re.compile(r"^(\.L_x_\d+):")
INSTRUCTION = re.compile(r"/\*([0-9a-f]{4,})\*/\s+(.*?)\s*;")

# Pipes by opcode, as far as throughput tables of the CUDA programming guide tell them apart.
_PIPES = (("fma", re.compile(r"FFMA|FMUL|FADD|IMAD|HFMA")),
          ("memory", re.compile(r"LD|ST|ATOM|RED|SHFL")),
          ("slow", re.compile(r"MUFU|FLO|POPC|F2F|F2I|I2F|DMUL|DADD|DFMA")),
          ("control", re.compile(r"BRA|BSSY|BSYNC|EXIT|WARPSYNC|R2UR|U[A-Z]|S2|CS2R|BAR")))
_GUARD = re.compile(r"^@!?U?P\w+\s+")
_LOAD = re.compile(r"^LDG\S*\s+(R\d+|RZ)")
_REGISTER = re.compile(r"\bR(\d+)(\.64)?\b")


def disassembler():
    """nvdisasm, of PATH or of Python's package."""
    path = shutil.which("nvdisasm")
    packaged = importlib.util.find_spec("nvidia")
    if path is None and packaged:
        found = [file for folder in packaged.submodule_search_locations
                 for file in Path(folder).glob("*/bin/nvdisasm")]
        path = found[0] if found else None
    if path is None:
        raise SystemExit("there is no nvdisasm in PATH; pip install nvidia-cuda-nvdisasm")
    return path


def entries_in(ptx):
    """{mangled name: parameters and body} of the kernels in a text of PTX."""
    return dict(_ENTRY.findall(ptx))


def assemble(path, names, cubin):
    """Makes machine code of the kernels `names` of a file of PTX, and returns ptxas' report."""
    done = subprocess.run(["ptxas", "-arch=sm_90", "-v", "--entry", ",".join(sorted(names)), path,
                           "-o", cubin], check=True, capture_output=True, text=True)
    return done.stdout + done.stderr


def functions(cubin):
    """{mangled name: lines of its instructions and labels}."""
    listing = subprocess.run([disassembler(), "-c", cubin], check=True, capture_output=True,
                             text=True)
    found, lines = {}, []
    for line in listing.stdout.splitlines():
        if start := _FUNCTION.match(line):
            lines = found.setdefault(start.group(1), [])
        elif LABEL.match(line) or INSTRUCTION.search(line):
            lines.append(line.strip())
    return found


def instructions(lines):
    """Those of lines, without what fills places."""
    found = (INSTRUCTION.search(line) for line in lines)
    return [match.group(2) for match in found if match and not match.group(2).startswith("NOP")]


def pipe_of(instruction):
    opcode = _GUARD.sub("", instruction).split()[0]
    for name, pattern in _PIPES:
        if pattern.match(opcode):
            return name
    return "alu"


def cost_of(instruction):
    """What an instruction counts for on its pipe: memory moves a word of each lane at a time."""
    if pipe_of(instruction) != "memory":
        return 1
    return max(1, _width_bytes(_GUARD.sub("", instruction)) // 4)


def registers_in(report):
    """{mangled name: registers} of ptxas' report."""
    names = re.findall(r"Compiling entry function '(\S+)'", report)
    return dict(zip(names, map(int, re.findall(r"Used (\d+) registers", report)), strict=True))


def shared_bytes_in(report):
    """{mangled name: bytes of shared memory} of ptxas' report."""
    found = {}
    for name, rest in re.findall(r"Compiling entry function '(\S+)'(.*?)(?=Compiling entry|\Z)",
                                 report, re.DOTALL):
        used = re.search(r"(\d+) bytes smem", rest)
        found[name] = int(used.group(1)) if used else 0
    return found


def bytes_under_way(lines):
    """The most bytes that a thread has loaded from global memory before it uses the first of them.
    Loads that a jump comes between are not counted together."""
    most, waiting, size_bytes = 0, set(), 0
    for line in lines:
        match = INSTRUCTION.search(line)
        if not match:  # a label
            waiting, size_bytes = set(), 0
            continue
        text = _GUARD.sub("", match.group(2))
        load = _LOAD.match(text)
        used = _registers(text[load.end():] if load else text)
        if used & waiting:
            waiting, size_bytes = set(), 0
        if load:
            width = _width_bytes(text)
            first = load.group(1)
            if first != "RZ":
                waiting |= {int(first[1:]) + k for k in range(max(1, width // 4))}
            size_bytes += width
            most = max(most, size_bytes)
    return most


def _registers(text):
    found = set()
    for number, is_pair in _REGISTER.findall(text):
        found |= {int(number), int(number) + 1} if is_pair else {int(number)}
    return found


def _width_bytes(load):
    for mark, width in ((".128", 16), (".64", 8), (".U8", 1), (".S8", 1), (".U16", 2), (".S16", 2)):
        if mark in load.split()[0]:
            return width
    return 4
