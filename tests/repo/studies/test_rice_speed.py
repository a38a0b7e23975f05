"""tools/adaptive_study/rice_speed.cpp: Rice codes by vectors are those of the definition."""

import subprocess
from pathlib import Path

import pytest


def test_vectors_and_definition_have_the_same_codes(root, tmp_path):
    if "avx512_vbmi" not in Path("/proc/cpuinfo").read_text():
        pytest.skip("this processor has no AVX-512 with VBMI, which the program is about")
    program = tmp_path / "rice_speed"
    subprocess.run(["g++", "-O2", "-std=c++20", "-march=native", "-o", program,
                    root / "tools/adaptive_study/rice_speed.cpp"], check=True)
    shown = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    lines = shown.splitlines()
    assert len(lines) == 2 + 8 and all(line.count("|") == 7 for line in lines), shown
