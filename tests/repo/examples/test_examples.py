"""Every example of C and C++ compiles by the command in its head and by CMake, and works."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
SOURCES = sorted([*EXAMPLES.glob("c/*.c"), *EXAMPLES.glob("cpp/*.cpp")])
WARNINGS = {".c": ["-std=c11", "-D_DEFAULT_SOURCE"], ".cpp": ["-std=c++20"]}
TIMEOUT_S = 60


def output_of(command, environment, **options):
    result = subprocess.run(command, env=environment, capture_output=True, text=True,
                            timeout=TIMEOUT_S, **options)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def run_average(text):
    lines = text.splitlines()
    assert len(lines) == 4
    assert len({line.partition(": ")[2] for line in lines}) == 1


def run_regression(text):
    first, last = (float(number) for number in re.findall(r"error (\S+)", text)[::3])
    assert last < first * 1e-6
    assert "weights are the same bits on all ranks: yes" in text


def run_sockets(text):
    assert float(re.search(r"eigenvector: (\S+)", text)[1]) > 0.9999
    assert text.endswith("all ranks found it\n")


def run_machines(text):
    line = r"y = (2\.0|1\.9)\d x -(1\.0|0\.9)\d"
    assert re.fullmatch(rf"rank 0 of 1: {line}, bits( [0-9a-f]{{8}}){{2}}\n", text)


CHECKS = {"average": run_average, "machines": run_machines, "regression": run_regression,
          "sockets": run_sockets}

# One process, as torchrun would start it; docs/TWO_MACHINES.md starts two.
LAUNCHED = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1"}


def test_every_example_has_a_check():
    assert {source.stem for source in SOURCES} == set(CHECKS)


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.stem)
def test_example_compiles_by_the_command_in_its_head(source, installed, tmp_path):
    (command,) = re.findall(r"Build: (.*?)(?: \*/)?$", source.read_text(), flags=re.MULTILINE)
    warnings = f"-Wall -Wextra -Werror {' '.join(WARNINGS[source.suffix])} -o {tmp_path}/program"
    output_of(["sh", "-c", f"{command} {warnings}"], installed, cwd=source.parent)
    CHECKS[source.stem](output_of([tmp_path / "program"], installed | LAUNCHED))


@pytest.mark.parametrize("standard", ["c++11", "c++17", "c++20"])
def test_handles_are_of_the_standards_that_the_headers_have(standard, tmp_path):
    """docs/C_API.md has programs of C++11 copy this header."""
    use = '#include "handles.h"\nint main() { return make_quantizer("") ? 0 : 1; }\n'
    folders = [f"-I{EXAMPLES}/cpp", f"-I{EXAMPLES.parent}/include"]
    strict = ["-Wall", "-Wextra", "-pedantic", "-Werror", "-fsyntax-only"]
    output_of(["g++", f"-std={standard}", *strict, *folders, "-x", "c++", "-"], os.environ,
              input=use)


def test_the_program_of_the_readme_compiles_from_an_installation(installed, tmp_path):
    text = (EXAMPLES.parent / "README.md").read_text()
    (source,) = re.findall(r"^```c\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    (command,) = re.findall(r"^`(cc average\.c .*)`", text, flags=re.MULTILINE)
    (tmp_path / "average.c").write_text(source)
    assert output_of(["sh", "-c", command], installed, cwd=tmp_path) in text


@pytest.fixture
def fresh_copy(tmp_path):
    """The source tree without what was built in it."""
    root, copy = EXAMPLES.parent, tmp_path / "libgqsgd"
    shutil.copytree(root, copy, ignore=lambda folder, names: [
        name for name in names if Path(folder) == root and re.match(r"build|B$|venv|\.git$", name)])
    return copy


def test_the_readme_installs_where_it_then_looks(fresh_copy, tmp_path):
    """Its lines for C run as they stand, but for the compilation, which takes minutes; what they
    would install lies where its next lines have pkg-config, the loader and the shell look."""
    text = (fresh_copy / "README.md").read_text()
    (block,) = [block for block in re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
                if "meson setup" in block]
    lines = [line for line in block.splitlines() if line.startswith(("meson setup", "export"))]
    assert len(lines) == 2
    home = tmp_path / "home"
    environment = {name: value for name, value in os.environ.items()
                   if name not in ("PKG_CONFIG_PATH", "LD_LIBRARY_PATH")} | {"HOME": str(home)}
    shown = "\n".join([*lines, 'echo "$PKG_CONFIG_PATH $LD_LIBRARY_PATH ${PATH%%:*}"'])
    found = output_of(["sh", "-ec", shown], environment, cwd=fresh_copy).splitlines()[-1]
    plan = json.loads(output_of(["meson", "introspect", "--installed", "B"], environment,
                                cwd=fresh_copy))
    names = ("gqsgd.pc", "libgqsgd.so.0", "gqsgd-plan")
    for folder, name in zip(found.split(), names, strict=True):
        assert folder.startswith(str(home))
        assert f"{folder}/{name}" in plan.values()
    from_the_build = environment | {"PKG_CONFIG_PATH": f"{fresh_copy}/B/meson-uninstalled"}
    flags = output_of(["pkg-config", "--cflags", "gqsgd-uninstalled"], from_the_build, cwd=tmp_path)
    output_of(["sh", "-c", f"echo '#include <gqsgd.h>' | cc {flags.strip()} -fsyntax-only -x c -"],
              from_the_build, cwd=tmp_path)


def test_examples_are_built_by_cmake(installed, tmp_path):
    output_of(["cmake", "-S", EXAMPLES, "-B", tmp_path], installed)
    output_of(["cmake", "--build", tmp_path], installed)
    for name, check in CHECKS.items():
        check(output_of([tmp_path / name], installed | LAUNCHED))
