"""set_log: where the library's warnings go."""

import subprocess
import sys

CODE = """
import gqsgd
lines = []
gqsgd.set_log(lines.append)
gqsgd.Communicator.local(1)
said = list(lines)
gqsgd.set_log(None)
gqsgd.Communicator.local(1)
assert lines == said
print(*lines, sep="\\n")
"""


def test_warnings_reach_the_callback_as_text(python_environment):
    environment = {**python_environment, "GQSGD_TIMEOUT_MS": "soon"}
    done = subprocess.run(
        [sys.executable, "-c", CODE],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert "GQSGD_TIMEOUT_MS=soon" in done.stdout
