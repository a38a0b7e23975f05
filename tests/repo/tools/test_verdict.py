"""tools/verdict.py: the last word of tools/test is right about failures and skips."""

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
    """verdict(cases, skips) -> (exit status, last line) of one JUnit file with these cases."""
    def run(cases, skips=""):
        (tmp_path / "unit.xml").write_text(
            f'<testsuites><testsuite name="s">{cases}</testsuite></testsuites>')
        (tmp_path / "skips.txt").write_text(skips)
        result = subprocess.run(
            [sys.executable, root / "tools/verdict.py", tmp_path / "skips.txt",
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


def test_a_skip_without_reason_is_refused(verdict):
    assert verdict(PASSED + SKIPPED, "unit:a.gpu -- \n")[0] == 1
    assert verdict(PASSED + SKIPPED, "unit:a.gpu\n")[0] == 1


def test_a_runner_that_ran_nothing_fails(verdict):
    assert verdict("")[0] == 1
