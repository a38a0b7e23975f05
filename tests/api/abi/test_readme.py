"""The README's first screen is true: its examples compile, run and print what it says."""

import os
import re
import subprocess
import sys

import pytest

TIMEOUT_S = 60


def blocks(root, language):
    """The fenced code blocks of README.md in one language."""
    text = (root / "README.md").read_text()
    found = re.findall(rf"^```{language}\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    assert found, f"README.md has no block of {language}"
    return found


def complete_program(root, language):
    """The complete program in one language: the one that prints, beside pieces of programs."""
    return next(block for block in blocks(root, language) if "print" in block)


def build_c(source_text, directory, root, library):
    """Compiles a C program as a user would, against the library under test."""
    source, program = directory / "example.c", directory / "example"
    source.write_text(source_text)
    subprocess.run(["gcc", "-Wall", "-Wextra", "-Werror", source, "-I", root / "include",
                    library, f"-Wl,-rpath,{library.parent}", "-pthread", "-o", program],
                   check=True)
    return program


def output_of(command, **environment):
    result = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S,
                            env={**os.environ, **environment})
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def run_python(command, root, library):
    return output_of([sys.executable, *command], GQSGD_LIBRARY=str(library),
                     PYTHONPATH=str(root / "bindings/python"))


def test_c_example_prints_what_the_readme_says(tmp_path, root, library):
    example = build_c(complete_program(root, "c"), tmp_path, root, library)
    assert output_of([example]) == blocks(root, "text")[0]


def test_python_example_prints_what_the_readme_says(root, library):
    example = complete_program(root, "python")
    assert run_python(["-c", example], root, library) == blocks(root, "text")[0]


def test_the_first_screen_is_one_screen(root):
    for language in ("c", "python"):
        frame = r"#include .*|import .*|int main\(void\) \{|\}|"
        lines = complete_program(root, language).splitlines()
        assert len([line for line in lines if not re.fullmatch(frame, line)]) <= 12
    assert (root / "README.md").read_text().splitlines().index("```text") < 60


def test_the_commands_of_the_readme_exist(root):
    for line in blocks(root, "sh")[0].splitlines():
        assert os.access(root / line.split()[0], os.X_OK), line


def test_c_folder_example_averages(tmp_path, root, library):
    text = (root / "examples/c/average.c").read_text()
    lines = output_of([build_c(text, tmp_path, root, library)]).splitlines()
    check_average(lines)


def test_python_folder_example_averages(root, library):
    check_average(run_python([root / "examples/python/average.py"], root, library).splitlines())


def check_average(lines):
    """Four ranks printed one line each, `rank R: V V V V`; all equal, close to the exact mean."""
    ranks = dict(line.removeprefix("rank ").split(":") for line in lines)
    assert sorted(ranks) == ["0", "1", "2", "3"]
    assert len(set(ranks.values())) == 1
    # A step of 8 bits is norm / 127; rounding and re-encode are each off by less than one.
    values = [float(value) for value in ranks["0"].split()]
    assert values == pytest.approx([1.5, 2.5, 3.5, -6.0], abs=2 * 6 / 127)
