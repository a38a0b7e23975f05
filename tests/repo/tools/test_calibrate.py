"""gqsgd-calibrate writes constants that gqsgd-plan and communicators take; gqsgd-info says what is
in use; tools/auto_sweep judges by them."""

import os
import re
import subprocess
import sys
import time

import pytest

TIMEOUT_S = 250

# More ranks than cores, in a container, as root: Open MPI wants to be told that it is meant so.
OPEN_MPI = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_MCA_mpi_yield_when_idle": "1",  # a rank that spins keeps others from a core
}


def run(*command, **environment):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          timeout=TIMEOUT_S, check=False, env={**os.environ, **environment})


@pytest.fixture(scope="module")
def costs(build_directory, tmp_path_factory):
    """A file of constants from a short calibration."""
    path = tmp_path_factory.mktemp("calibrate") / "costs"
    done = run(build_directory / "tools/gqsgd-calibrate", "--transport", "local", "--ranks", 2,
               "--maxbytes", "4K", "-n", 1, "-v", "-o", path)
    assert done.returncode == 0, done.stderr
    return path


def test_constants_are_measured(costs):
    text = costs.read_text()
    numbers = dict(re.findall(r"^([\w.]+) = (.+)$", text, re.MULTILINE))
    assert float(numbers["latency_ns"]) > 0
    assert float(numbers["cpus"]) >= 1
    for row in ("none", "linear8", "linear4", "exponential8", "exponential4", "mantissa", "bf16",
                "fp16", "adaptive", "rice"):
        cached, streamed, _ = map(float, numbers[f"{row}.quantize"].split())
        assert 0 < cached <= streamed < 1000, row
    assert 1 < float(numbers["move_ns"]) < 10000
    assert len(numbers) == 25 + 17 * 6, "every constant is written"
    assert float(numbers["native_byte_ns"]) == 0, "threads have no allreduce of their own"
    assert re.search(r"^# +2 +4096 +paper-ge8 +ring +\d", text, re.MULTILINE), text


def test_the_allreduce_of_mpi_is_measured_and_taken_by_auto(build_directory, root, tmp_path):
    """As auto_sweep sees it: native is among the choices, and MPI's own beside them."""
    costs, launch = tmp_path / "costs", ("mpirun", "-n", "2")
    done = run(*launch, build_directory / "tools/gqsgd-calibrate-mpi", "--maxbytes", "4K", "-n", 1,
               "-v", "-o", costs, **OPEN_MPI)
    assert done.returncode == 0, done.stderr
    text = costs.read_text()
    numbers = dict(re.findall(r"^([\w.]+) = (.+)$", text, re.MULTILINE))
    assert float(numbers["native_byte_ns"]) > 0 and float(numbers["native_step_ns"]) > 0
    assert re.search(r"^# +2 +4096 +none +native +\d", text, re.MULTILINE), text
    # Of the others the built-in ones: those of so short a measurement may have anything in front.
    costs.write_text("native_byte_ns = 1e-6\nnative_step_ns = 1e-6\n")
    sweep = run(sys.executable, root / "tools/auto_sweep", build_directory,
                "--costs", costs, "--transport", "mpi", "--format", "paper-ge8", "--maxbytes",
                "1K", "--iters", 1, "--within", 1e6, **OPEN_MPI)
    assert sweep.returncode == 0, sweep.stderr
    assert re.search(r"^\| 1,024 \| [\d.,]+ \| none, native \|", sweep.stdout, re.MULTILINE)


def test_what_is_written_is_taken(costs, build_directory):
    plan = run(build_directory / "tools/gqsgd-plan", "--costs", costs, "--ranks", 2)
    assert plan.returncode == 0, plan.stderr
    assert "direct" in plan.stdout


def test_auto_is_compared_with_fixed_choices(costs, build_directory, root):
    sweep = run(sys.executable, root / "tools/auto_sweep", build_directory, "--costs", costs,
                "--transport", "local", "--format", "paper-ge8", "--maxbytes", "4K", "--iters", 1,
                "--within", 1e6)
    assert sweep.returncode == 0, sweep.stderr
    assert re.search(r"^\| 4,096 \| .* \|$", sweep.stdout, re.MULTILINE), sweep.stdout


@pytest.mark.parametrize("options, sentence", [
    (["--ranks", "1"], '"1" is not a value'),
    (["--transport", "pigeon"], '"pigeon" is not a value'),
    (["extra"], '"extra" is not an option'),
])
def test_wrong_options_are_refused(build_directory, options, sentence):
    done = run(build_directory / "tools/gqsgd-calibrate", *options)
    assert done.returncode == 2
    assert sentence in done.stderr


def test_a_file_that_cannot_be_written_is_refused_before_anything_is_timed(build_directory,
                                                                          tmp_path):
    calibrate = build_directory / "tools/gqsgd-calibrate"
    for path in (tmp_path / "nowhere/costs", tmp_path):
        begin = time.monotonic()
        done = run(calibrate, "-o", path)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr == f"gqsgd-calibrate: {path} cannot be written\n"
        assert time.monotonic() - begin < 5  # a calibration takes minutes


def test_too_little_memory_is_a_sentence(build_directory):
    processor = min(os.sched_getaffinity(0))
    done = run("sh", "-c", f"ulimit -v 200000; exec taskset -c {processor} {build_directory}/tools/"
               "gqsgd-calibrate --transport local --ranks 2 --maxbytes 1K -n 1")
    assert done.returncode == 1
    assert done.stderr == ("gqsgd-calibrate: no memory to time stages: 140 MB on each of 1 "
                           "processors\n")


@pytest.mark.parametrize("tool", ["gqsgd-calibrate", "gqsgd-info", "gqsgd-plan"])
def test_help(build_directory, tool):
    done = run(build_directory / "tools" / tool, "--help")
    assert done.returncode == 0
    assert done.stdout.startswith(f"{tool}: ")


def test_info_says_what_is_in_use(build_directory, costs):
    info = build_directory / "tools/gqsgd-info"
    plain = run(info, GQSGD_COSTS="").stdout
    assert re.search(r"^library +libgqsgd \d", plain, re.MULTILINE)
    assert re.search(r"^cpu stages +\w+; runnable here: (\w+ )*scalar$", plain, re.MULTILINE)
    assert "direct: no constants are given" in plain and "latency_ns" not in plain
    measured = run(info, GQSGD_COSTS=str(costs)).stdout
    assert "the cheapest by constants" in measured and "\nlatency_ns = " in measured
    assert re.search(r"^warning +GQSGD_COSTS: costs=/nowhere cannot be read",
                     run(info, GQSGD_COSTS="/nowhere").stdout, re.MULTILINE)
    assert run(info, "extra").returncode == 2
