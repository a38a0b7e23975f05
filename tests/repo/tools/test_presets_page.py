"""docs/PRESETS.md: its examples run and print what the page says."""

import os
import re
import subprocess
import sys

TIMEOUT_S = 60


def test_examples_print_what_the_page_says(root, library):
    page = (root / "docs/PRESETS.md").read_text()
    programs = re.findall(r"^```python\n(.*?)^```$", page, flags=re.MULTILINE | re.DOTALL)
    outputs = re.findall(r"^```text\n(.*?)^```$", page, flags=re.MULTILINE | re.DOTALL)
    assert len(programs) == len(outputs) > 0
    path = os.pathsep.join([str(root / "bindings/python"), str(root / "tools")])
    for program, output in zip(programs, outputs, strict=True):
        result = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, timeout=TIMEOUT_S,
            env={**os.environ, "PYTHONPATH": path, "GQSGD_LIBRARY": str(library)})
        assert result.returncode == 0, result.stderr
        assert result.stdout == output


def test_presets_of_the_page_are_those_of_the_library(root, library, monkeypatch):
    monkeypatch.syspath_prepend(str(root / "bindings/python"))
    monkeypatch.syspath_prepend(str(root / "tools"))
    import gqsgd
    from error_lib.schemes import PRESETS

    page = (root / "docs/PRESETS.md").read_text()
    texts = dict(re.findall(r"^\| `([a-z0-9-]+)` \| `([^`]+)` \|", page, flags=re.MULTILINE))
    assert texts.keys() == PRESETS.keys()
    for name, text in texts.items():
        assert gqsgd.Quantizer(name) == gqsgd.Quantizer(text)
