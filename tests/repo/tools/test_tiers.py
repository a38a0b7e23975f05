"""tools/tiers.py: each tier of tools/test runs what tests/tiers.txt says; no test is in none."""

import fnmatch
import subprocess
import sys
from pathlib import Path

import pytest

ELSEWHERE = ("tools/build_docs", "clang/*", "fuzz/*")  # tools/test itself knows these


@pytest.fixture
def tiers(root, monkeypatch):
    monkeypatch.syspath_prepend(str(root / "tools"))
    import tiers

    return tiers


@pytest.fixture
def lines(tiers, root):
    return tiers.read_tiers((root / "tests/tiers.txt").read_text())


def python_tests(root):
    folders = (root / "tests", root / "bindings" / "python")
    return [str(path.relative_to(root)) for folder in folders for path in folder.rglob("test_*.py")]


def test_the_first_line_that_fits_decides(tiers):
    lines = tiers.read_tiers("usual mpi/small -- small\nall mpi/* -- MPI\n\n# a comment\n")
    assert tiers.tier_of("mpi/small", lines) == "usual"
    assert tiers.tier_of("mpi/large", lines) == "all"
    assert tiers.tier_of("kernels/new", lines) == tiers.UNLISTED


def test_a_tier_runs_those_before_it(tiers):
    lines = tiers.read_tiers("fast a -- a\nusual b -- b\nall c -- c")
    run = {tier: [n for n in "abc" if tiers.is_run(n, lines, tier)] for tier in tiers.TIERS}
    assert run == {"fast": ["a"], "usual": ["a", "b"], "all": ["a", "b", "c"]}


@pytest.mark.parametrize("line", ["all mutations/*", "some a -- b", "all -- b", "all a --"])
def test_a_line_of_another_form_is_refused(tiers, line):
    with pytest.raises(ValueError, match="is not 'TIER PATTERN -- WHAT IT IS'"):
        tiers.read_tiers(line)


def test_what_a_tier_leaves_out_is_reported_once(tiers):
    lines = tiers.read_tiers("all a -- one\nall b -- one\nusual c -- two\nfast d -- three")
    assert tiers.left_out(lines, "fast") == ["one", "two"]
    assert tiers.left_out(lines, "usual") == ["one"]
    assert tiers.left_out(lines, "all") == []


def test_every_line_fits_a_test(tiers, lines, root, build_directory):
    """But for tests of Meson that a build without CUDA or MPI does not have."""
    files = python_tests(root)
    tests = [f"{t['suite'][0].partition(':')[2]}/{t['name']}"
             for t in tiers.introspected(build_directory, "tests")]
    may_be_absent = ("gpu/", "mpi/", "ptx/", "nccl/nccl_ranges", *ELSEWHERE)
    for _, pattern, _ in lines:
        if not pattern.startswith(may_be_absent):
            assert fnmatch.filter([*files, *tests], pattern), f"tests/tiers.txt: {pattern}"


def test_all_runs_everything(tiers, lines, root, build_directory):
    assert all(tiers.is_run(path, lines, "all") for path in python_tests(root))
    tests = tiers.introspected(build_directory, "tests")
    assert tiers.tests_of(build_directory, lines, "all") == tests


def test_ninja_is_asked_for_what_the_tests_of_a_tier_need(tiers, lines, build_directory):
    build = Path(build_directory)
    asked = {tier: set(tiers.targets_of(build, lines, tier)) for tier in tiers.TIERS}
    assert asked["fast"] < asked["usual"] < asked["all"]
    assert any(name.startswith("libgqsgd.so") for name in asked["fast"])
    assert not any("mutated_" in name for name in asked["usual"])
    assert any("mutated_codec" in name for name in asked["all"])


def test_paths_of_another_tier_are_left_out(root):
    command = [sys.executable, root / "tools/tiers.py", root / "tests/tiers.txt", "usual", "files"]
    given = ["tests/api/abi/test_header.py", "tests/repo/packaging/test_wheel.py"]
    done = subprocess.run([*command, *given], capture_output=True, text=True, check=True)
    assert done.stdout.split() == given[:1]


def test_a_command_that_lacks_packages_names_them_and_ends(root):
    """Nothing is installed unless that was asked for."""
    script = "set -eu; source tools/common.sh; need_packages /dev/null no-such-package; echo on"
    done = subprocess.run(["bash", "-c", script], cwd=root, capture_output=True, text=True,
                          env={"PATH": "/usr/bin:/bin"})
    assert done.returncode == 1 and "apt-get install no-such-package" in done.stderr
    assert done.stdout == ""
