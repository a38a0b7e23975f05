"""tools/soak: a minute in which nothing grows, leaks that it must find, and its test of growth."""

import random
import subprocess
import sys

import pytest

TIMEOUT_S = 280


@pytest.fixture
def soak(root, build_directory):
    def run(*options):
        return subprocess.run(
            [sys.executable, root / "tools/soak", "--build", build_directory, *options],
            capture_output=True, text=True, timeout=TIMEOUT_S)

    return run


@pytest.fixture
def soak_lib(root, monkeypatch):
    monkeypatch.syspath_prepend(str(root / "tools"))
    import soak_lib.command
    import soak_lib.flatness
    import soak_lib.rounds

    return soak_lib


def grown(output):
    """The (process, series) that a report calls growing."""
    return {tuple(cell.strip() for cell in line.split("|")[1:3])
            for line in output.splitlines() if line.endswith("GROWS")}


def test_a_run_of_no_group_is_a_failure(soak_lib, monkeypatch, capsys):
    """As where only groups over a network are asked for and there is no UCX."""
    command = soak_lib.command
    monkeypatch.setattr(command, "has_network", lambda workers: False)
    run = command.soak(command.parse_arguments(["--transports", "network"]), None)
    assert command.report(run) == 1
    assert "WRONG: no group of --transports can form here" in capsys.readouterr().out


def test_a_minute_in_which_nothing_grows(soak):
    done = soak("--seconds", "60")
    assert done.returncode == 0, done.stdout + done.stderr
    assert not grown(done.stdout)
    assert "processes, " in done.stdout and "threads; faults: " in done.stdout


def test_leaks_are_found_in_each_process(soak):
    """1 KiB a call, and one descriptor, thread and mapping a round."""
    done = soak("--seconds", "15", "--transports", "threads", "processes", "--leak", "memory",
                "descriptor", "thread", "mapping")
    assert done.returncode == 1, done.stdout + done.stderr
    found = grown(done.stdout)
    for process in ("0", "1"):
        for series in ("heap", "resident", "proportional", "descriptors", "threads", "mappings"):
            assert (process, series) in found, done.stdout


def test_a_build_without_the_worker_is_named(soak, tmp_path):
    done = soak("--build", str(tmp_path))
    assert done.returncode == 2 and "soak-worker is not there" in done.stderr


@pytest.mark.parametrize("name", ["heap", "resident", "descriptors", "mappings"])
def test_a_flat_series_with_noise_and_peaks_does_not_grow(name, soak_lib):
    source = random.Random(name)
    limit = soak_lib.flatness.LIMITS[name]
    values = [100 * limit + source.gauss(0, limit) for _ in range(2000)]
    for peak in range(0, 2000, 50):
        values[peak] += 1000 * limit
    assert not soak_lib.flatness.growth(name, values).grows


def test_what_grows_in_the_warm_up_alone_does_not_grow(soak_lib):
    values = [min(k, 300) * 10_000 for k in range(1000)]
    assert not soak_lib.flatness.growth("heap", values).grows


@pytest.mark.parametrize(("name", "rate", "noise"), [
    ("descriptors", 0.01, 0), ("threads", 0.01, 0), ("mappings", 0.05, 0.5), ("heap", 1000, 8000),
    ("resident", 8000, 100_000),
])
def test_a_series_that_rises_a_little_each_round_grows(name, rate, noise, soak_lib):
    source = random.Random(name)
    values = [int(1000 + rate * k + source.gauss(0, noise)) for k in range(1000)]
    found = soak_lib.flatness.growth(name, values)
    assert found.grows
    assert found.growth == pytest.approx(rate * 1000 * 2 / 3, rel=0.1)


def test_a_seed_and_a_number_are_one_round(soak_lib):
    draw, transports = soak_lib.rounds.draw, ["threads", "processes", "network"]
    rounds = [draw("7", number, transports) for number in range(300)]
    assert rounds == [draw("7", number, transports) for number in range(300)]
    assert rounds != [draw("8", number, transports) for number in range(300)]
    assert {one.fault for one in rounds} == set(soak_lib.rounds.FAULTS)
    assert not any(one.fault == "kill" and one.transport == "threads" for one in rounds)


def test_results_that_differ_between_ranks_are_wrong(soak_lib):
    end = soak_lib.command.Run()
    one = next(one for number in range(100)
               if (one := soak_lib.rounds.draw("1", number, ["processes"])).fault == "none")
    from soak_lib.workers import End, Sample
    sample = Sample(*[1] * 6)
    end.add(one, [End(3, 0, "a", sample, ""), End(3, 0, "b", sample, ""),
                  End(3, 0, "a", sample, "")])
    assert len(end.wrong) == 1 and "differ" in end.wrong[0]
