"""The programs that users start from run and do what they say: docs/JAX.md and the example."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


def output_of(arguments, environment):
    done = subprocess.run(
        [sys.executable, *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.timeout(300)
def test_the_first_program_of_the_page_prints_what_the_page_says(tmp_path, python_environment):
    page = (ROOT / "docs" / "JAX.md").read_text()
    program = re.search(r"^```python\n(.*?)^```$", page, flags=re.MULTILINE | re.DOTALL)
    printed = re.search(r"^```text\n(.*?)^```$", page, flags=re.MULTILINE | re.DOTALL)
    (tmp_path / "average.py").write_text(program.group(1))
    assert output_of([tmp_path / "average.py"], python_environment) == printed.group(1)


@pytest.mark.timeout(300)
def test_the_example_trains_equal_networks_with_a_quarter_of_the_bytes(python_environment):
    example = ROOT / "examples" / "python" / "jax_data_parallel.py"
    lines = output_of([example], python_environment).splitlines()
    found = [
        re.fullmatch(r"rank \d: accuracy ([\d.]+), parameters (\w+), (\d+) bytes sent per step", x)
        for x in lines
    ]
    assert len(found) == 4, lines
    assert len({match.group(2) for match in found}) == 1, lines
    assert min(float(match.group(1)) for match in found) > 0.95, lines
    float32_bytes = 4 * sum(m * n + n for m, n in ((2, 64), (64, 64), (64, 3)))
    # Ranks of the direct schedule send what they do not own and give out what they do.
    sent = sum(int(match.group(3)) for match in found)
    assert sent < 0.3 * 2 * 3 * float32_bytes, lines
