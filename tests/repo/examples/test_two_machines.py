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

# Two namespaces of one machine: UCX would take memory that they share, or the loopback.
UCX = {"UCX_TLS": "tcp,self", "UCX_NET_DEVICES": "eth0"}
INSTALLERS = ("pip", "apt-get")


def scripts(section):
    """What the page has the first and the second machine run."""
    (text,) = re.findall(rf"^## {section}$(.*?)^## ", PAGE, flags=re.MULTILINE | re.DOTALL)
    found = dict(re.findall(r"^\*\*On (.*?):\*\*\n\n```sh\n(.*?)^```$", text,
                            flags=re.MULTILINE | re.DOTALL))
    assert list(found) == ["both machines", "the first machine", "the second machine"]
    return [found["both machines"] + found[f"the {which} machine"] for which in ("first", "second")]


@pytest.fixture
def outputs_of(network, installed, build_directory, tmp_path):
    """A function that runs a section on two hosts, in folders that look like a clone; what both
    print."""
    environment = {**installed, **UCX, "PYTHONPATH": str(ROOT / "bindings/python"),
                   "GQSGD_LIBRARY": str(build_directory / "libgqsgd.so"), "OMP_NUM_THREADS": "1",
                   "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}

    def run(section, **variables):
        left_out = "".join(f"{name}() {{ :; }}\n" for name in INSTALLERS)
        with network(2, "1gbit") as net:
            processes = []
            for host, script in zip(net.hosts, scripts(section), strict=True):
                folder = tmp_path / host.name
                folder.mkdir()
                for name in ("examples", "bindings"):
                    (folder / name).symlink_to(ROOT / name)
                script = script.replace(ADDRESS, net.hosts[0].address)
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


@pytest.mark.timeout(300)
def test_a_fit_in_julia(outputs_of, build_directory, tmp_path):
    if shutil.which("julia") is None:
        pytest.skip("julia is not here")
    home = tmp_path / "home/gqsgd/lib"
    home.mkdir(parents=True)
    (home / "libgqsgd.so").symlink_to(build_directory / "libgqsgd.so")
    first, second = outputs_of("Julia", HOME=str(tmp_path / "home"))
    assert re.fullmatch(r"rank 0 of 2: y = \S+ x -\S+, bits( [0-9a-f]{8}){2}\n", first)
    assert second == first.replace("rank 0", "rank 1")


def test_the_page_names_what_there_is():
    for path in re.findall(r"\bexamples/[\w/.]+", PAGE):
        assert (ROOT / path).is_file(), path
