"""The parts of a check: commands with limits of their own; what one makes of the device does not
keep the others from running."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path

from .device import ClocksUnderLoad
from .machine import toolkit_environment

ROOT = Path(__file__).resolve().parents[2]
NOT_RUN = 77  # what programs of tests/gpu end with where they find no device
STAGE_TESTS = ("isa", "isa_extended", "adaptive", "batch", "step", "sparse_entries", "device_api",
               "gate", "stream", "random")
CALL_TESTS = ("local", "fused", "embedding", "process")
TESTS = (*STAGE_TESTS, *CALL_TESTS)
#: What a quick check gives the programs: tests by parts of their names, sizes of groups.
QUICK = {"isa": ["ManyTiles", "EveryElementOffset", "WideSums"],
         "isa_extended": ["ManyBlocks", "OtherEncodings", "Rotated"],
         "local": ["FewValues", "Chunks_"], "fused": ["FewValues", "VirtualRanks", "CallAfterCall"],
         "embedding": ["Refused"], "process": [3]}
SANITIZER_S = 120  # memcheck alone makes allreduces of threads tens of times slower
END_S = 10  # what a program may take to go away once it is killed


@dataclass
class Part:
    """One command. `needs` are parts without which it cannot work."""

    name: str
    command: list
    limit_s: float
    environment: dict = field(default_factory=dict)
    needs: tuple = ("build",)
    missing: str = ""  #: why the command is not there to be run
    measures: bool = False  #: clocks are read meanwhile
    least_s: float = 1  #: with less time left it is not begun


def all_parts(build, out, architecture, quick, device_count=1):
    """The parts in order: equal bits, stages beside the copy, whole calls, the sanitizer, arrays.
    Without --quick nothing is left out."""
    return [*build_parts(build, architecture), *checking_parts(build, out, quick, device_count)]


def checking_parts(build, out, quick, device_count=1):
    """The same without configure and build."""
    return [*test_parts(build, TESTS, quick), *fused_process_parts(build, quick, device_count),
            *nccl_parts(build, quick),
            *stage_benches(build, out, quick), *call_benches(build, quick, device_count),
            nccl_bench(build, quick),
            *sanitizer_parts(build, quick), array_part(build, quick)]


def built_parts(build, out, quick, device_count=1):
    """Parts on programs that were built elsewhere; one whose program is not there is not run."""
    return [replace(part, needs=(), missing=part.missing or absent_of(part, build))
            for part in checking_parts(build, out, quick, device_count)]


def absent_of(part, build):
    """Which file of the build a command lacks; "" if none."""
    files = [word for word in part.command if isinstance(word, Path) and build in word.parents]
    names = [str(file.relative_to(build)) for file in files
             if file.suffix != ".json" and not file.exists()]  # a JSON file is what it writes
    return f"{', '.join(names)} not found in {build}" if names else ""


def targets():
    """Files of the build that the parts use."""
    return ["libgqsgd.so.0.1.0", "bindings/jax/libgqsgd_jax.so", "bench/gpu/gpu_perf",
            "bench/gpu/gpu_local_perf", "bench/gpu/gpu_nccl_perf",
            *(f"tests/gpu/gpu_{t}" for t in (*TESTS, "nccl"))]


def test_parts(build, names, quick):
    """Programs of tests/gpu that need nothing but a device."""
    chosen = QUICK if quick else {}
    return [Part(f"test {name}", [build / f"tests/gpu/gpu_{name}", *chosen.get(name, ())], 100,
                 {"GQSGD_GPU_VALUES": str(2**23 if quick else 2**27)}) for name in names]


def fused_process_parts(build, quick, device_count):
    """Processes with a GPU each, which fail if calls that can be are not one kernel of each rank.
    `test process` has more ranks than GPUs as well, whose calls are made by stages."""
    ranks = [count for count in (2, 3, 5, 8) if count <= device_count]
    command = [build / "tests/gpu/gpu_process", "--fused", *(ranks[-1:] if quick else ranks)]
    return [Part("test process fused", command, 100)] if ranks else []


def build_parts(build, architecture):
    """Machine code of this device alone, and of programs only those that run here."""
    again = ["--reconfigure"] if (build / "build.ninja").exists() else []
    setup = ["meson", "setup", *again, build, ROOT, "-Dbuildtype=release", "-Dcuda=enabled",
             f"-Dgpu_archs={architecture}", "-Dmpi=disabled", "-Dtests=auto"]
    return [Part("configure", setup, 60, toolkit_environment(), needs=(),
                 missing=without("meson", "nvcc")),
            Part("build", ["ninja", "-C", build, *targets()], 240, needs=("configure",),
                 missing=without("ninja"))]


def nccl_parts(build, quick):
    """Ranks over NCCL, several on a GPU where NCCL has that; a group that hangs is named before the
    part's own limit comes. Then by communicators that do not block."""
    ranks, seconds = (3, 20) if quick else (8, 60)
    program, environment = build / "tests/gpu/gpu_nccl", nccl_environment()
    return [Part("test nccl", [program, ranks, seconds], 3 * seconds, environment),
            Part("test nccl nonblocking", [program, 2, seconds], 2 * seconds,
                 {**environment, "NCCL_COMM_BLOCKING": "0"})]


def nccl_environment():
    """NCCL of a Python package, which PyTorch brings, where no other one is named."""
    if "GQSGD_NCCL_LIBRARY" in os.environ or not find_spec("nvidia"):
        return {}
    package = find_spec("nvidia.nccl")
    for folder in package.submodule_search_locations if package else ():
        library = Path(folder) / "lib/libnccl.so.2"
        if library.is_file():
            return {"GQSGD_NCCL_LIBRARY": str(library)}
    return {}


def stage_benches(build, out, quick):
    """Stages at both sizes of docs/CUDA.md: 256 MiB of float32, and 25 MiB."""
    return [Part(f"bench {name}",
                 [build / "bench/gpu/gpu_perf", "--values", values, "--rounds",
                  5 if quick else 25, "--json", out / f"bench_{name}.json"], 90, measures=True)
            for name, values in (("256_MiB", 2**26), ("25_MiB", 6553600))]


def call_benches(build, quick, device_count):
    """Allreduces of threads, and those of fused kernels beside stages: of ranks on one device, and
    of as many ranks as there are devices."""
    local = [build / "bench/gpu/gpu_local_perf", "--calls", 5 if quick else 30]
    parts = [Part("bench local", local, 60, measures=True),
             Part("bench fused", [*local, "--fused", 1], 60, measures=True)]
    ranks = [count for count in (2, 4, 8) if count <= device_count]
    return parts + [Part("bench fused devices", [*local, "--fused", 1, "--devices", count,
                                                 "--ranks", count], 60, measures=True)
                    for count in ranks[-1:]]


def nccl_bench(build, quick):
    """Allreduces over NCCL beside NCCL's own, of as many ranks as `nccl_parts` has; a group that
    hangs is named before the part's own limit comes."""
    return Part("bench nccl", [build / "bench/gpu/gpu_nccl_perf", "--calls", 5 if quick else 30,
                               "--limit", 30], 120, nccl_environment(), measures=True)


def sanitizer_parts(build, quick):
    """Accesses outside of memory, races in shared memory: short selections, which are slow. What
    CUDA answers when NCCL asks for something that is not there is no finding."""
    few = "NotFinite"  # of the tests: every stage in every format
    checks = [("memcheck", "device_api", few if quick else "DeviceApi")]
    if not quick:
        checks += [("racecheck", "device_api", few), ("initcheck", "device_api", few),
                   ("synccheck", "device_api", few),
                   ("memcheck", "sparse_entries", "ArbitraryEntries"),
                   ("racecheck", "sparse_entries", "GapsWithFillers"),
                   ("memcheck", "stream", "Stream"), ("memcheck", "local", "Chunks_SameBits"),
                   ("memcheck", "nccl", 1)]
    api = {"memcheck": ["--report-api-errors", "no"]}  # an option of that tool
    return [Part(f"sanitizer {tool} {program}",
                 ["compute-sanitizer", "--tool", tool, *api.get(tool, ()), "--error-exitcode", 9,
                  build / f"tests/gpu/gpu_{program}", tests], SANITIZER_S,
                 nccl_environment() if program == "nccl" else {}, least_s=30,
                 missing=without("compute-sanitizer")) for tool, program, tests in checks]


def array_part(build, quick):
    """Stages on arrays of PyTorch and CuPy, then gqsgd.torch and gqsgd.jax over NCCL, as far as
    they are there."""
    packed = ROOT / "python"  # pytest, in what --pack wrote
    folders = [ROOT / "bindings/python", *([packed] if packed.is_dir() else [])]
    environment = {"PYTHONPATH": os.pathsep.join(map(str, folders)), "GQSGD_BUILD": str(build),
                   "GQSGD_LIBRARY": str(build / "libgqsgd.so"), **nccl_environment()}
    tests = ROOT / "tests/bindings/gpu"
    return Part("arrays", [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider",
                           tests / "test_framework_arrays.py" if quick else tests], 240,
                environment, least_s=30,
                missing="" if packed.is_dir() or find_spec("pytest") else "pytest not found")


def without(*programs):
    """Which of these programs is not there; "" if all are."""
    names = [name for name in programs if shutil.which(name) is None]
    return f"{', '.join(names)} not found" if names else ""


def run_all(parts, out, deadline_s, say=print):
    """Runs them one after the other; [{name, verdict, seconds, said, command}]."""
    end, results = time.monotonic() + deadline_s, []
    for part in parts:
        failed = [r["name"] for r in results if r["name"] in part.needs and r["verdict"] != "ok"]
        missing = part.missing or (f"{failed[0]} did not succeed" if failed else "")
        left_s = min(part.limit_s, end - time.monotonic())
        if not missing and left_s < part.least_s:
            missing = "the time of the whole check is spent"
        if missing:
            result = {"verdict": "not run", "seconds": 0.0, "said": missing}
        else:
            result = run_watched(part, log_of(out, part.name), left_s)
        results.append({"name": part.name, **result, "command": shown(part.command, out)})
        say(f"{part.name:24} {result['verdict']:9} {result['seconds']:6.1f} s  "
            f"{result['said'].splitlines()[-1] if result['said'] else ''}", flush=True)
    return results


def shown(command, out):
    """As a report has it, which is kept: without the folders of the machine that ran it."""
    return " ".join("python3" if word == sys.executable else str(relative(word, out))
                    for word in command)


def relative(word, out):
    """A path in the folder of results or in this one."""
    folders = [folder for folder in (out, ROOT)
               if isinstance(word, Path) and word.is_relative_to(folder)]
    return word.relative_to(folders[0]) if folders else word


def log_of(out, name):
    """Where a part's output goes."""
    return out / f"{name.replace(' ', '_')}.log"


def run_watched(part, log, limit_s):
    """The same with clocks, where they matter."""
    if not part.measures:
        return run_part(part, log, limit_s)
    with ClocksUnderLoad() as clocks:
        result = run_part(part, log, limit_s)
    return {**result, "clocks_mhz": clocks.found(), "printed": log.read_text(errors="replace")}


def run_part(part, log, limit_s):
    """One command, its output in `log`; at its limit it is ended with all that it started."""
    begin, stuck = time.monotonic(), False
    with log.open("w") as output:
        process = subprocess.Popen(list(map(str, part.command)), stdout=output, cwd=ROOT,
                                   stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                                   env={**os.environ, **part.environment}, start_new_session=True)
        try:
            status = process.wait(timeout=limit_s)
            verdict = {0: "ok", NOT_RUN: "not run"}.get(status, "failed")
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            status, verdict = None, "timed out"
            stuck = not ends_soon(process)
    said = tail_of(log, 2 if verdict == "ok" else 20)
    if verdict == "not run" and "no device" in said:
        verdict = "failed"  # nvidia-smi finds one: CUDA does not work here
    if verdict == "ok" and re.search(r"^\d+ skipped in ", said, re.MULTILINE):
        verdict = "not run"  # pytest's last line where no test passed; its status is 0
    if stuck:
        said += f"\nkilled, and not gone {END_S} s later: the driver holds it"
    if status is not None and status < 0:
        said += f"\nended by signal {-status}"
    return {"verdict": verdict, "seconds": round(time.monotonic() - begin, 1), "said": said}


def ends_soon(process):
    """False if a killed program is not gone in time; there is no further wait for it."""
    try:
        process.wait(timeout=END_S)
    except subprocess.TimeoutExpired:
        return False
    return True


def tail_of(log, line_count):
    """The last lines of a log that say something."""
    lines = [line for line in Path(log).read_text(errors="replace").splitlines() if line.strip()]
    return "\n".join(lines[-line_count:])
