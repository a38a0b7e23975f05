"""set_log: where the library's warnings go."""

import subprocess
import sys

CODE = """
import gqsgd
lines = []
gqsgd.set_log(lines.append)
comm = gqsgd.Communicator.local(1)[0]
gqsgd.Quantizer()
gqsgd.set_log(None)
print("\\n".join(lines))
"""


def test_warnings_reach_the_callback_as_text(python_environment):
    environment = {**python_environment, "GQSGD_FORCE_ISA": "no-such-isa"}
    done = subprocess.run(
        [sys.executable, "-c", CODE],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert "GQSGD_" in done.stdout
