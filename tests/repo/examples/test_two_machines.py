"""The commands of docs/TWO_MACHINES.md, between two network namespaces: what installs is left out,
all else runs as it stands, but for the address."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs/TWO_MACHINES.md").read_text()
ADDRESS = "10.0.0.1"  # of the first machine, on the page
TIMEOUT_S = 200

# Two namespaces of one machine: UCX would take memory that they share.
UCX = {"UCX_TLS": "tcp,self"}
INSTALLERS = ("pip", "apt-get")

# What both ranks print alike.
RESULT = re.compile(r"(bits( [0-9a-f]{8}){2}|parameters [0-9a-f]{16})")


def scripts(section):
    """What the page has the first and the second machine run."""
    (text,) = re.findall(rf"^## {section}$(.*?)^## ", PAGE, flags=re.MULTILINE | re.DOTALL)
    found = dict(re.findall(r"^\*\*On (.*?):\*\*\n\n```sh\n(.*?)^```$", text,
                            flags=re.MULTILINE | re.DOTALL))
    assert list(found) == ["both machines", "the first machine", "the second machine"]
    return [found["both machines"] + found[f"the {which} machine"] for which in ("first", "second")]


def home_with_library(build_directory, tmp_path):
    """The home folder of one who has installed the library there."""
    folder = tmp_path / "home/gqsgd/lib"
    folder.mkdir(parents=True)
    (folder / "libgqsgd.so").symlink_to(build_directory / "libgqsgd.so")
    return str(tmp_path / "home")


@pytest.fixture
def outputs_of(network, installed, build_directory, tmp_path):
    """A function that runs a section on two hosts, in folders that look like a clone; what both
    print."""
    environment = {**installed, **UCX, "PYTHONPATH": str(ROOT / "bindings/python"),
                   "GQSGD_LIBRARY": str(build_directory / "libgqsgd.so"), "OMP_NUM_THREADS": "1",
                   "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}

    def run(section, changes=(), **variables):
        if section == "Julia" and shutil.which("julia") is None:
            pytest.skip("julia is not here")
        left_out = "".join(f"{name}() {{ :; }}\n" for name in INSTALLERS)
        with network(2, "1gbit") as net:
            processes = []
            net.add_dead_end(net.hosts[0], "docker0", "172.17.0.1/16")  # as one of them may have
            for host, script in zip(net.hosts, scripts(section), strict=True):
                folder = tmp_path / host.name
                folder.mkdir()
                for name in ("examples", "bindings"):
                    (folder / name).symlink_to(ROOT / name)
                for old, new in [*changes, (ADDRESS, net.hosts[0].address)]:
                    assert old in script
                    script = script.replace(old, new)
                command = host.command("bash", "-ec", left_out + script)
                processes.append(subprocess.Popen(
                    command, cwd=folder, env={**environment, **variables}, text=True,
                    stdout=subprocess.PIPE, stderr=subprocess.PIPE))
            try:
                ended = [process.communicate(timeout=TIMEOUT_S) for process in processes]
            finally:
                for process in processes:
                    process.kill()
                    process.wait()
        for process, (output, errors) in zip(processes, ended, strict=True):
            assert process.returncode == 0, output + errors[-3000:]
        return [output for output, _ in ended]

    return run


@pytest.mark.timeout(300)
def test_a_training_with_pytorch(outputs_of):
    pytest.importorskip("torch")
    first, _ = outputs_of("PyTorch")
    accuracies = [float(number) for number in re.findall(r"accuracy (\d\.\d+)", first)]
    assert len(accuracies) == 8 and accuracies[-1] > 0.9
    (shown,) = re.findall(r"^```text\n(<HookState.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL)
    for line in shown.splitlines():
        assert line in first


@pytest.mark.timeout(300)
def test_hybrid_sharding_with_pytorch(outputs_of):
    """What is said below the commands: another number of processes, and another program."""
    pytest.importorskip("torch")
    first, second = outputs_of("PyTorch", [("--nproc-per-node 1", "--nproc-per-node 2"),
                                           ("python/ddp.py", "python/hsdp.py")])
    accuracies = [float(number) for number in re.findall(r"accuracy (\d\.\d+)", first)]
    assert len(accuracies) == 8 and accuracies[-1] > 0.8
    assert "<AllReduce blocks-8, call 144>" in first  # 48 steps of three wrapped modules
    assert "rank 0 of 2, transport network" in first
    assert float(re.search(r"of float32: ratio (\S+)", first)[1]) > 3.8
    assert second == ""


@pytest.mark.timeout(300)
def test_a_training_with_jax(outputs_of):
    pytest.importorskip("jax")
    line = r"rank {}: accuracy ([\d.]+), parameters (\w+), \d+ bytes sent per step\n"
    (page,) = re.findall("^" + line.format(0), PAGE, flags=re.MULTILINE)
    found = [re.fullmatch(line.format(rank), output)
             for rank, output in enumerate(outputs_of("JAX"))]
    assert found[0][2] == found[1][2] and len(page[1]) == len(found[0][2])
    assert min(float(match[1]) for match in found) > 0.9


def test_a_fit_in_c_prints_what_the_page_says(outputs_of):
    """Its last bits are the compiler's: some fuse multiplications and additions."""
    first, second = outputs_of("C")
    found = re.fullmatch(r"(rank 0 of 2: y = \S+ x \S+, bits)( [0-9a-f]{8}){2}\n", first)
    assert f"```text\n{found[1]} " in PAGE
    assert second == first.replace("rank 0", "rank 1")


# What a launcher sets, in place of the page's lines.
BY_SRUN = [(f"MASTER_ADDR={ADDRESS} WORLD_SIZE=2",
            f"SLURM_STEP_NODELIST={ADDRESS},other SLURM_NTASKS=2 SLURM_JOB_ID=4711"),
           ("RANK=", "SLURM_PROCID=")]


@pytest.mark.parametrize("section", ["C", "JAX", "Julia"])
@pytest.mark.timeout(300)
def test_variables_of_slurm_are_enough(outputs_of, build_directory, tmp_path, section):
    if section == "JAX":
        pytest.importorskip("jax")
    first, second = outputs_of(section, BY_SRUN, HOME=home_with_library(build_directory, tmp_path))
    assert first.startswith("rank 0") and second.startswith("rank 1")
    assert RESULT.search(first)[0] == RESULT.search(second)[0]


def test_torchrun_starts_the_fit_in_c(outputs_of):
    pytest.importorskip("torch")
    torchrun = (f"torchrun --no-python --nnodes 2 --nproc-per-node 1 --master-addr {ADDRESS} "
                "--master-port 29500 --node-rank ")
    outputs = outputs_of("C", [("RANK=", torchrun)])
    assert RESULT.search(outputs[0])[0] == RESULT.search(outputs[1])[0]


@pytest.mark.timeout(300)
def test_a_fit_in_julia(outputs_of, build_directory, tmp_path):
    first, second = outputs_of("Julia", HOME=home_with_library(build_directory, tmp_path))
    assert re.fullmatch(r"rank 0 of 2: y = \S+ x -\S+, bits( [0-9a-f]{8}){2}\n", first)
    assert second == first.replace("rank 0", "rank 1")


def test_the_page_names_what_there_is():
    for path in re.findall(r"\bexamples/[\w/.]+", PAGE):
        assert (ROOT / path).is_file(), path
