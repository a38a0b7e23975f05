"""find_package(gqsgd): from where the library was installed, from where it was moved to, and by
version."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

AVERAGE = Path(__file__).resolve().parents[3] / "examples/c/average.c"
PROGRAM = f"""cmake_minimum_required(VERSION 3.16)
project(program LANGUAGES C)
find_package(gqsgd WANTED REQUIRED)
add_executable(average {AVERAGE})
target_link_libraries(average gqsgd::gqsgd -pthread)
"""
TIMEOUT_S = 60


def run(*command):
    environment = {name: value for name, value in os.environ.items()
                   if name not in ("PKG_CONFIG_PATH", "LD_LIBRARY_PATH", "CMAKE_PREFIX_PATH")}
    return subprocess.run(command, env=environment, capture_output=True, text=True,
                          timeout=TIMEOUT_S)


def configure(folder, tree, wanted=""):
    """CMake's answer to a program that asks for version `wanted` of what lies under `tree`."""
    (header,) = tree.rglob("gqsgd.h")
    folder.mkdir(exist_ok=True)
    (folder / "CMakeLists.txt").write_text(PROGRAM.replace("WANTED", wanted))
    return run("cmake", "-S", folder, "-B", folder / "build",
               f"-DCMAKE_PREFIX_PATH={header.parents[1]}")


def build_and_run(folder, tree):
    configured = configure(folder, tree)
    assert configured.returncode == 0, configured.stderr
    built = run("cmake", "--build", folder / "build")
    assert built.returncode == 0, built.stdout + built.stderr
    done = run(folder / "build/average")
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 4
    return run("ldd", folder / "build/average").stdout


@pytest.fixture
def moved(prefix, tmp_path):
    """The installation under another name, which has a blank."""
    return shutil.copytree(prefix, tmp_path / "moved here", symlinks=True)


def test_five_lines_build_a_program_without_pkg_config(prefix, tmp_path):
    assert str(prefix) in build_and_run(tmp_path / "program", prefix)


def test_moved_installation_is_used_where_it_is(moved, tmp_path):
    assert str(moved) in build_and_run(tmp_path / "program", moved)


@pytest.mark.parametrize("wanted", ["0.1", "0.1.0", "0.1.0 EXACT"])
def test_compatible_version_is_found(prefix, tmp_path, wanted):
    done = configure(tmp_path / "program", prefix, wanted)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("wanted", ["0.0.9", "0.1.1", "0.2", "1.0", "0.1.1 EXACT"])
def test_other_version_is_not_found(prefix, tmp_path, wanted):
    done = configure(tmp_path / "program", prefix, wanted)
    assert done.returncode != 0
    assert "version: 0.1.0" in done.stderr


def test_missing_library_is_named(moved, tmp_path):
    (library,) = moved.rglob("libgqsgd.so.0.1.0")
    library.unlink()
    done = configure(tmp_path / "program", moved)
    assert done.returncode != 0
    assert f"{library}, which belongs to this package" in " ".join(done.stderr.split())
