"""tools/netbench and tools/auto_sweep: hosts that are namespaces, a table of what ran there, and
nothing left."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

TIMEOUT_S = 250


@pytest.fixture
def namespaces(network):
    """A function that lists the machine's namespaces."""
    return lambda: subprocess.run(["ip", "netns", "list"], capture_output=True, text=True,
                                  check=True).stdout


@pytest.fixture
def netbench(root, build_directory):
    def run(*options):
        return subprocess.run(
            [sys.executable, root / "tools/netbench", "--build", build_directory, *options],
            capture_output=True, text=True, timeout=TIMEOUT_S, env=dict(os.environ))

    return run


def test_every_contender_has_a_row_and_no_host_is_left(namespaces, netbench, tmp_path):
    before = namespaces()
    done = netbench("--hosts", "3", "--rate", "1gbit", "--count", "100000", "--no-gloo",
                    "--iterations", "3", "--preset", "blocks-8,paper-gl4,adaptive-4",
                    "--format", "blocks-8,bits=4,bits_down=8",
                    "--json", str(tmp_path / "net.json"))
    assert done.returncode == 0, done.stderr
    assert namespaces() == before
    run = json.loads((tmp_path / "net.json").read_text())["runs"][0]
    rows = {row["name"]: row for row in run["rows"]}
    formats = ["none", "blocks-8", "paper-gl4", "adaptive-4", "blocks-8,bits=4,bits_down=8"]
    over_ucx = [f"{spec}, network" for spec in formats]
    assert list(rows) == ["MPI_Allreduce float32", *formats, *over_ucx]
    assert rows["MPI_Allreduce float32"]["speedup"] == 1
    for name, row in rows.items():
        assert row["seconds"] > 0 and name in done.stdout
        # What a link carries of the bytes sent cannot be faster than its rate.
        assert row["seconds"] > 0.5 * row["bytes"] * 8e-9 - 0.002
    assert rows["none"]["bytes"] == pytest.approx(2 * 2 / 3 * 400000, rel=0.01)
    assert rows["paper-gl4"]["bytes"] == pytest.approx(rows["none"]["bytes"] / 8, rel=0.05)
    assert rows["adaptive-4"]["bytes"] == pytest.approx(4.19 / 32 * rows["none"]["bytes"], rel=0.05)
    for spec in ("blocks-8", "adaptive-4"):
        assert rows[spec]["limit_seconds"] > rows[spec]["passes_seconds"] > 0
    for spec in formats:
        assert rows[f"{spec}, network"]["bytes"] == pytest.approx(rows[spec]["bytes"], rel=0.01)
        if spec != "none":  # other values of the same law
            assert 0.5 < rows[f"{spec}, network"]["nmse"] / rows[spec]["nmse"] < 2


def test_without_mpi_the_library_goes_over_ucx_alone(namespaces, netbench, tmp_path):
    before = namespaces()
    done = netbench("--hosts", "2", "--rate", "1gbit", "--count", "50000", "--no-gloo",
                    "--iterations", "2", "--preset", "blocks-8", "--transport", "network",
                    "--mpirun", "no-such-mpirun", "--json", str(tmp_path / "net.json"))
    assert done.returncode == 0, done.stderr
    assert namespaces() == before
    rows = json.loads((tmp_path / "net.json").read_text())["runs"][0]["rows"]
    assert [row["name"] for row in rows] == ["none, network", "blocks-8, network"]
    assert rows[1]["bytes"] < 0.3 * rows[0]["bytes"]


@pytest.fixture
def net_lib(root, monkeypatch):
    monkeypatch.syspath_prepend(str(root / "tools"))
    monkeypatch.syspath_prepend(str(root / "bindings/python"))
    import net_lib.bench
    import net_lib.command
    import net_lib.report

    return net_lib


def test_floats_of_16_bits_over_gloo_have_rows_of_half_the_bytes(net_lib):
    arguments = net_lib.command.parse_arguments(["--count", "1000", "--hosts", "4"])
    before = {"float32": {"seconds": [4.0, 6.0], "nmse": 1e-15},
              "float16": {"seconds": [2.0, 3.0], "nmse": 1e-7},
              "bfloat16": {"seconds": [2.5, 3.5], "nmse": 6e-6}}
    after = {dtype: {"seconds": [9.0], "nmse": 0.0} for dtype in before}
    rows = net_lib.bench.gloo_rows(arguments, before, after)
    assert [row["name"] for row in rows] == ["Gloo float32", "Gloo float16", "Gloo bfloat16"]
    assert [row["bytes"] for row in rows] == [6000, 3000, 3000]
    assert [row["seconds"] for row in rows] == [6.0, 3.0, 3.5]
    assert [row["nmse"] for row in rows] == [1e-15, 1e-7, 6e-6]


def test_connections_are_limited(net_lib, build_directory, monkeypatch):
    from net_lib.command import limit_connections

    for name in ("LD_PRELOAD", "PACED_BYTES_PER_S"):
        monkeypatch.setenv(name, "")  # and so restored
    limit_connections(build_directory, 800)
    program = ("import socket\n"
               "s = [socket.socket(), socket.socket(socket.AF_INET, socket.SOCK_DGRAM)]\n"
               "print(*(each.getsockopt(socket.SOL_SOCKET, 47) for each in s))")
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                           check=True).stdout.split()
    assert shown == ["100000000", "-1"]  # SO_MAX_PACING_RATE in bytes per second; no limit


def test_a_page_has_the_cells_of_the_table(net_lib):
    row = {"name": "blocks-8", "bytes": 2e6, "seconds": 0.01, "speedup": 4.0, "nmse": 1e-4,
           "limit_seconds": 0.008}
    run = {"rate": "200mbit", "hosts": 4, "count": 1000, "rows": [row]}
    run["rows"].append({**row, "name": "blocks-8, network"})
    run["rows"].append({**row, "name": "Gloo float32"})
    section = net_lib.report.markdown(run)
    assert section.startswith("## 4 hosts, 200 Mbit/s\n")
    cells = "2.00 | 10.0 | 4.00x | 1.0e-04 | 8.0 | 1.25"
    assert section.endswith(f"| `blocks-8` | {cells} |\n| `blocks-8`, network | {cells} |\n"
                            f"| Gloo float32 | {cells} |\n")
    assert "4.00x" in net_lib.report.table(run)


@pytest.mark.parametrize("after_s", [0, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1])
def test_a_terminated_run_leaves_no_host(namespaces, root, build_directory, after_s):
    """Hosts are still being made in most of these."""
    before = namespaces()
    run = subprocess.Popen(
        [sys.executable, root / "tools/netbench", "--build", build_directory, "--no-gloo",
         "--hosts", "2", "--rate", "10mbit", "--preset", "none"], stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + TIMEOUT_S
    while namespaces() == before and time.monotonic() < deadline:
        time.sleep(0.001)
    assert namespaces() != before
    time.sleep(after_s)
    run.terminate()
    assert run.wait(TIMEOUT_S) == 128 + signal.SIGTERM
    assert namespaces() == before


def test_hosts_that_are_removed_end_what_runs_in_them(namespaces, net_lib):
    before = namespaces()
    with net_lib.network.Network(2, "1gbit") as network:
        ranks = [subprocess.Popen(host.command("sleep", "60")) for host in network.hosts]
        time.sleep(0.5)  # until they are in their namespaces
    assert [rank.wait(TIMEOUT_S) for rank in ranks] == [-signal.SIGKILL] * 2
    assert namespaces() == before


def test_a_run_that_is_terminated_within_a_finalizer_ends(root):
    """Python ignores what is raised there."""
    program = ("import os, signal, time\n"
               "from net_lib.network import exit_when_terminated\n"
               "class Finalized:\n"
               "    def __del__(self):\n"
               "        os.kill(os.getpid(), signal.SIGTERM)\n"
               "        time.sleep(0.01)\n"
               "exit_when_terminated()\n"
               "Finalized()\n"
               "time.sleep(20)\n")
    ended = subprocess.run([sys.executable, "-c", program], cwd=root / "tools", timeout=TIMEOUT_S,
                           check=False)
    assert ended.returncode == 128 + signal.SIGTERM


def test_auto_is_swept_over_networks(namespaces, root, build_directory, tmp_path):
    before = namespaces()
    done = subprocess.run(
        [sys.executable, root / "tools/auto_sweep", build_directory, "--transport", "mpi",
         "--hosts", "2", "--rate", "200mbit", "1gbit", "--format", "paper-gl8", "--maxbytes", "4K",
         "--iters", "1", "--within", "1000", "--json", tmp_path / "sweep.json"],
        capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stderr
    assert namespaces() == before
    tables = json.loads((tmp_path / "sweep.json").read_text())["tables"]
    assert [table["place"] for table in tables] == ["2 hosts, 200mbit each way",
                                                    "2 hosts, 1gbit each way"]
    for table in tables:
        assert f"paper-gl8, {table['place']}" in done.stdout
        assert [row["size"] for row in table["rows"]] == [1024, 4096]
        for row in table["rows"]:
            assert row["auto_us"] > 0 and row["ratio"] >= row["by_hand_ratio"] > 0


def test_a_sweep_says_what_it_lacks(root, build_directory):
    for options, sentence in (((), "--costs is needed where there is no --rate"),
                              (("--rate", "1gbit"), "--rate goes with --transport mpi"),
                              (("--rate", "1gbit", "--transport", "mpi", "--hosts", "1"),
                               "--hosts is 2 to 64")):
        done = subprocess.run([sys.executable, root / "tools/auto_sweep", build_directory,
                               *options], capture_output=True, text=True, timeout=TIMEOUT_S,
                              check=False)
        assert done.returncode == 2 and sentence in done.stderr


def test_what_is_missing_is_reported(netbench):
    done = netbench("--hosts", "1", "--mpirun", "no-such-mpirun", "--no-gloo")
    assert done.returncode == 2
    assert "--hosts is 1; it is 2 to 64" in done.stderr
    assert "no-such-mpirun is not on this machine" in done.stderr


@pytest.mark.parametrize("options, sentence", [
    (["--rate", "1furlong"], "netbench: tc "),
    (["--rate", "1gbit", "--preset", "no-such-preset"], 'preset "no-such-preset" is not known'),
])
def test_what_fails_meanwhile_is_reported_without_a_traceback(namespaces, netbench, options,
                                                              sentence):
    before = namespaces()
    done = netbench("--hosts", "2", "--no-gloo", "--transport", "network", "--count", "1000",
                    *options)
    assert done.returncode == 1
    assert sentence in done.stderr and not done.stderr.startswith("Traceback")
    assert namespaces() == before


def test_a_failed_program_is_reported_and_no_host_is_left(network, namespaces):
    from net_lib.mpi import Mpirun

    before = namespaces()
    with pytest.raises(RuntimeError, match="mpirun ended with"), network(2, "100mbit") as net:
        Mpirun(net, "mpirun.openmpi").run("false")
    assert namespaces() == before


def test_a_link_has_its_rate_and_can_be_cut(network):
    from net_lib.network import run

    with network(2, "200mbit") as net:
        first, second = net.hosts
        shown = run("tc", "-n", first.name, "qdisc", "show", "dev", "eth0")
        assert "tbf" in shown and "200Mbit" in shown
        net.set_link(second, up=False)
        state = run("ip", "-n", second.name, "link", "show", "eth0")
        assert "state DOWN" in state or "NO-CARRIER" in state
