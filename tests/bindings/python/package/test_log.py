"""Where the library's log goes: to a function, or to the logger "gqsgd"."""

import os
import signal
import subprocess
import sys

import gqsgd
import numpy as np
import pytest

CALLBACK = """
import gqsgd, logging
lines = []
gqsgd.set_log(lambda level, line: lines.append((logging.getLevelName(level), line)), "warn")
gqsgd.Communicator.local(1)
shown = list(lines)
gqsgd.set_log(None)
gqsgd.Communicator.local(1)
assert lines == shown
print(*lines, sep="\\n")
"""

# An allreduce of two ranks, and a request, which a thread of the library runs.
CALLS = """
import numpy as np
def work(comm):
    x = np.ones(1000, np.float32)
    comm.allreduce(x, gqsgd.Quantizer())
    return comm.allreduce_start(x, gqsgd.Quantizer()).wait()
gqsgd.run_local(2, work)
"""


def run(code, environment, **variables):
    """The lines on standard output and standard error of a Python program."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**environment, **variables},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines(), done.stderr.splitlines()


def test_warnings_reach_the_callback_with_their_level(python_environment):
    lines, _ = run(CALLBACK, python_environment, GQSGD_TIMEOUT_MS="soon")
    assert lines and all(line.startswith("('WARNING', ") for line in lines)
    assert "GQSGD_TIMEOUT_MS=soon" in lines[0]


def logged(level):
    return f"import gqsgd, logging\nlogging.basicConfig(level=logging.{level})\n{CALLS}"


@pytest.mark.parametrize(
    ("level", "shown"),
    [("WARNING", set()), ("INFO", {"INFO"}), ("DEBUG", {"INFO", "DEBUG"})],
)
def test_an_enabled_logger_gets_the_lines_of_its_level(python_environment, level, shown):
    lines, errors = run(logged(level), python_environment)
    assert lines == []
    assert {line.partition(":gqsgd:")[0] for line in errors} == shown


def test_with_the_environment_variable_lines_go_to_standard_error_once(python_environment):
    _, errors = run(logged("INFO"), python_environment, GQSGD_LOG="info")
    assert errors and not [line for line in errors if ":gqsgd:" in line]


def test_log_to_logging_asks_for_a_level(python_environment):
    code = logged("DEBUG").replace("import numpy", "gqsgd.log_to_logging('info')\nimport numpy")
    _, errors = run(code, python_environment, GQSGD_LOG="trace")
    assert {line.partition(":gqsgd:")[0] for line in errors} == {"INFO"}


def test_a_logger_that_is_enabled_later_is_attached_by_a_call(python_environment):
    code = f"""
import gqsgd, logging
gqsgd.Communicator.local(1)
logging.basicConfig(level=logging.INFO)
gqsgd.Communicator.local(1)
print("attached")
gqsgd.log_to_logging()
{CALLS}
"""
    lines, errors = run(code, python_environment)
    assert lines == ["attached"] and errors


def test_threads_of_the_library_log_while_python_computes(python_environment):
    """Callbacks wait for Python's lock, calls of the library are made without it."""
    code = f"""
import gqsgd, logging, threading
lines, ended = [], threading.Event()
gqsgd.set_log(lambda level, line: lines.append(line), "trace")
def compute():
    while not ended.is_set():
        sum(range(1000))
thread = threading.Thread(target=compute)
thread.start()
for _ in range(20):
{CALLS.replace(chr(10), chr(10) + '    ')}
ended.set()
thread.join()
assert len(lines) >= 20 * 4
"""
    run(code, python_environment)


@pytest.mark.parametrize("ends", ["", "import os; os.fork() or os._exit(0)", "raise SystemExit(0)"])
def test_requests_under_way_at_the_end_of_python_do_no_harm(python_environment, ends):
    code = f"""
import gqsgd, logging, numpy as np
logging.basicConfig(level=logging.DEBUG)
comms = gqsgd.Communicator.local(2)
x = np.ones(100_000, np.float32)
requests = [comm.allreduce_start(x, gqsgd.Quantizer()) for comm in comms]
{ends}
"""
    run(code, python_environment)


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_during_a_call_that_logs_is_heard():
    """Lines come to the thread of the call when it ends, and Python code is interrupted at its
    entry, from where nothing is raised to the caller."""
    lines = []

    def interrupt(level, line):
        lines.append(line)
        signal.raise_signal(signal.SIGINT)

    with gqsgd.Communicator.local(1)[0] as comm:
        gqsgd.set_log(interrupt, "trace")
        try:
            with pytest.raises(KeyboardInterrupt):
                comm.allreduce(np.ones(9, np.float32), gqsgd.Quantizer())
        finally:
            gqsgd.set_log(None)
    assert lines


def test_an_unknown_level_is_refused():
    with pytest.raises(gqsgd.InvalidArgument, match="'loud'; accepted are none, warn, info, trace"):
        gqsgd.set_log(print, "loud")


def test_what_is_no_function_is_refused():
    with pytest.raises(TypeError, match="callback is a str, not a function"):
        gqsgd.set_log("warn")


assert "GQSGD_LOG" not in os.environ, "these tests set it themselves"
