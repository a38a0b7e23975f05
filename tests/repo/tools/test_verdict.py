"""tools/verdict.py: the last word of tools/test is right about failures and skips."""

import re
import subprocess
import sys

import pytest

PASSED = '<testcase classname="a" name="one"/>'
FAILED = '<testcase classname="a" name="two"><failure message="no"/></testcase>'
BROKEN = '<testcase classname="a" name="two"><error message="no"/></testcase>'
SKIPPED = '<testcase classname="a" name="gpu"><skipped message="no device"/></testcase>'
DISABLED = '<testcase classname="a" name="gpu" status="notrun"/>'


@pytest.fixture
def verdict(root, tmp_path):
    """verdict(cases, skips, again) -> (exit status, last line) of one JUnit file with these cases,
    and of what was run once more."""
    def write(path, cases):
        path.parent.mkdir(exist_ok=True)
        path.write_text(f'<testsuites><testsuite name="s">{cases}</testsuite></testsuites>')

    def run(cases, skips="", again=None):
        write(tmp_path / "unit.xml", cases)
        if again is not None:
            write(tmp_path / "again/unit.xml", again)
        (tmp_path / "skips.txt").write_text(skips)
        result = subprocess.run(
            [sys.executable, root / "tools/verdict.py", "judge", tmp_path / "skips.txt",
             tmp_path / "unit.xml"], capture_output=True, text=True)
        return result.returncode, result.stdout.splitlines()[-1] if result.stdout else ""

    return run


def test_passed_tests_pass(verdict):
    assert verdict(PASSED) == (0, "1 passed, 0 failed, 0 skipped")


@pytest.mark.parametrize("case", [FAILED, BROKEN])
def test_a_failure_fails(verdict, case):
    assert verdict(PASSED + case) == (1, "1 passed, 1 failed, 0 skipped")


@pytest.mark.parametrize("case", [SKIPPED, DISABLED])
def test_a_skip_needs_a_listed_reason(verdict, case):
    assert verdict(PASSED + case) == (1, "1 passed, 0 failed, 1 skipped")
    assert verdict(PASSED + case, "unit:a.gpu -- no device here\n")[0] == 0
    assert verdict(PASSED + case, "# comment\n\nunit:*gpu -- no device here\n")[0] == 0
    assert verdict(PASSED + case, "unit:a.cpu -- no device here\n")[0] == 1


def test_tests_of_googletest_are_named_with_their_program(root, tmp_path):
    """As Meson writes them."""
    results = tmp_path / "gcc.xml"
    results.write_text(
        '<testsuites><testsuite name="gqsgd.transport - gqsgd:transport_ucx_children.Ucx/Children">'
        '<testcase classname="Ucx/Children" name="Late/0"><skipped message="no UCX"/></testcase>'
        '</testsuite></testsuites>')
    skips = tmp_path / "skips.txt"
    for pattern, status in (("transport_ucx_*", 0), ("transport_network_*", 1)):
        skips.write_text(f"*:gqsgd.transport - gqsgd:{pattern} -- UCX may not be here\n")
        said = subprocess.run([sys.executable, root / "tools/verdict.py", "judge", skips, results],
                              capture_output=True, text=True)
        assert said.returncode == status
        assert "gcc:gqsgd.transport - gqsgd:transport_ucx_children.Ucx/Children.Late/0" in (
            said.stdout)


def test_a_skip_without_reason_is_refused(verdict):
    assert verdict(PASSED + SKIPPED, "unit:a.gpu -- \n")[0] == 1
    assert verdict(PASSED + SKIPPED, "unit:a.gpu\n")[0] == 1


def test_a_runner_that_ran_nothing_fails(verdict):
    assert verdict("")[0] == 1


def failures(count):
    return "".join(f'<testcase classname="a" name="{number}"><failure/></testcase>'
                   for number in range(count))


@pytest.mark.parametrize("again, status", [
    (PASSED, 0), (PASSED + SKIPPED, 0), (PASSED + FAILED, 1), (FAILED, 1), (SKIPPED, 1),
    ("", 1)])
def test_a_failure_is_forgiven_if_all_that_ran_once_more_passed(verdict, again, status):
    last = "2 passed, 0 failed, 0 skipped" if status == 0 else "1 passed, 1 failed, 0 skipped"
    assert verdict(PASSED + FAILED, again=again) == (status, last)


def test_few_failures_are_forgiven(verdict):
    assert verdict(failures(3), again=PASSED) == (0, "3 passed, 0 failed, 0 skipped")
    assert verdict(failures(4), again=PASSED) == (1, "3 passed, 1 failed, 0 skipped")


def test_what_failed_is_found_for_another_run(root, tmp_path):
    def said(*arguments):
        return subprocess.run([sys.executable, root / "tools/verdict.py", *arguments], text=True,
                              capture_output=True, check=True).stdout.split()

    for name, cases in (("good", PASSED), ("bad", PASSED + FAILED), ("broken", BROKEN)):
        (tmp_path / f"{name}.xml").write_text(
            f'<testsuites><testsuite name="s">{cases}</testsuite></testsuites>')
    names = [tmp_path / f"{name}.xml" for name in ("good", "bad", "broken")]
    assert said("failed", *names) == ["bad", "broken"]
    log = tmp_path / "testlog.json"
    results = {"a": "OK", "b": "FAIL", "c": "SKIP", "d": "TIMEOUT"}
    log.write_text("".join(f'{{"name": "suite - p:{name}", "result": "{result}"}}\n'
                           for name, result in results.items()))
    assert said("programs", log) == ["p:b", "p:d"]


def test_every_script_that_calls_it_says_what_it_wants(root):
    calls = {(path.name, word) for path in sorted((root / "tools").iterdir()) if path.is_file()
             for word in re.findall(r"tools/verdict[.]py ([^ ]+)", path.read_text())}
    assert {name for name, _ in calls} >= {"test", "test_aarch64"}
    commands = {"judge", "failed", "programs", "names"}  # "names": a comment of tools/test
    assert [call for call in sorted(calls) if call[1] not in commands] == []
