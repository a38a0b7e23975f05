"""tools/sanitizers.sh: what a sanitizer reports fails tools/test, and is shown."""

import subprocess

import pytest


@pytest.fixture
def judge(root, tmp_path):
    """Whether reports with these contents pass, and what is printed of them."""

    def judged(*contents):
        for number, content in enumerate(contents):
            (tmp_path / f"report.{number}").write_text(content)
        script = f"source tools/common.sh; source tools/sanitizers.sh; sanitizer_reports {tmp_path}"
        done = subprocess.run(["bash", "-c", script], cwd=root, capture_output=True, text=True,
                              timeout=60)
        return done.returncode == 0, done.stdout

    return judged


def test_no_report_passes(judge):
    assert judge() == (True, "")


def test_memory_that_malloc_did_not_give_passes(judge):
    warning = "==7==WARNING: AddressSanitizer failed to allocate 0x8000000000 bytes\n"
    assert judge(warning) == (True, "")


@pytest.mark.parametrize("line", [
    "==7==ERROR: AddressSanitizer: heap-buffer-overflow on address 0x1\n",
    "==7==ERROR: LeakSanitizer: detected memory leaks\n",
    "a.cpp:1:2: runtime error: shift exponent 32 is too large for 32-bit type\n",
    "WARNING: ThreadSanitizer: data race (pid=7)\n",
])
def test_one_report_among_others_fails_and_is_printed(judge, line):
    passed, printed = judge("==6==WARNING: nothing\n", line)
    assert not passed
    assert line in printed


@pytest.mark.parametrize("arguments", [["--sanitize"], ["--sanitize", "memory"]])
def test_another_sanitizer_is_refused(root, arguments):
    done = subprocess.run([root / "tools/test", *arguments], capture_output=True, text=True,
                          timeout=60)
    assert done.returncode == 1
    assert "it is address, undefined or thread" in done.stderr
