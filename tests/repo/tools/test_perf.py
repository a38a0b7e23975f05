"""gqsgd-perf: where its ranks run. That its results are right it checks itself, as a Meson test."""

import json
import os
import subprocess

import pytest

TIMEOUT_S = 100


@pytest.fixture
def perf(build_directory, tmp_path):
    def run(*options):
        file = tmp_path / "perf.json"
        subprocess.run([build_directory / "bench/gqsgd-perf", "-b", "4K", "-e", "4K", "-n", "1",
                        "--json", file, *options],
                       capture_output=True, timeout=TIMEOUT_S, check=True)
        return json.loads(file.read_text())

    return run


def test_ranks_are_bound_where_it_is_asked_for(perf):
    bound = perf("--transport", "process", "--bind")
    assert bound["bind"] is True
    assert "(1 for each process)" in bound["machine"]


def test_ranks_may_run_anywhere_otherwise(perf):
    free = perf("--transport", "process")
    assert free["bind"] is False
    assert f"({len(os.sched_getaffinity(0))} for each process)" in free["machine"]


def test_the_threads_of_a_rank_are_among_the_options(perf):
    assert perf("--comm-options", "threads=3")["comm_options"] == "threads=3"


def test_without_a_format_it_measures_what_people_should_use(perf):
    """The library's default and its 4 bits, beside none; the paper's presets are for asking."""
    assert [row["format"] for row in perf()["rows"]] == ["none", "blocks-8", "rotated-4"]
    asked = perf("--format", "paper-gl8")["rows"]
    assert [row["format"] for row in asked] == ["none", "paper-gl8"]


def test_calls_of_more_bytes_than_the_machine_has_are_a_sentence(build_directory):
    done = subprocess.run([build_directory / "bench/gqsgd-perf", "-e", "4000000G"], text=True,
                          capture_output=True, timeout=TIMEOUT_S)
    assert done.returncode == 2
    assert done.stderr == ("gqsgd-perf: no memory for 4294967296000000 bytes that ranks share\n")


def test_ranks_over_mpi_are_those_of_mpirun(build_directory):
    command = ["mpirun", "-n", "1", build_directory / "bench/gqsgd-perf-mpi"]
    environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1",
                   "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    for options in ("--ranks", "4"), ("--transport", "local"):
        done = subprocess.run([*command, *options], text=True, capture_output=True,
                              timeout=TIMEOUT_S, env=environment)
        assert done.returncode == 2
        assert "--ranks and --transport are of gqsgd-perf; here ranks are" in done.stderr
