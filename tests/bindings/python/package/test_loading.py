"""Finding the library: what is tried, in which order, and the error when nothing is there."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import gqsgd
import pytest
from gqsgd import __main__ as report
from gqsgd import _abi, _companion
from gqsgd.network import ucx

PACKAGE = Path(gqsgd.__file__).parent
LIBRARY = Path(os.environ["GQSGD_LIBRARY"])


def python(*arguments, environment):
    """A Python process that finds packages by PYTHONPATH alone, not in the current folder."""
    return subprocess.run(
        [sys.executable, *arguments],
        env=environment,
        cwd=environment["PYTHONPATH"],
        capture_output=True,
        text=True,
        timeout=60,
    )


def run(code, *arguments, environment):
    return python("-c", code, *arguments, environment=environment)


@pytest.fixture
def copied_package(tmp_path):
    """An installed package without a library, and an environment that finds it."""
    shutil.copytree(PACKAGE, tmp_path / "gqsgd", ignore=shutil.ignore_patterns("__pycache__"))
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    del environment["GQSGD_LIBRARY"]
    return tmp_path, environment


def test_import_needs_no_library(python_environment):
    environment = {**python_environment, "GQSGD_LIBRARY": "/nowhere/libgqsgd.so"}
    done = run("import gqsgd; print(gqsgd.__version__)", environment=environment)
    assert (done.returncode, done.stdout.strip()) == (0, gqsgd.__version__), done.stderr


def test_import_brings_numpy_and_no_framework(python_environment):
    code = "import sys, gqsgd; print([m for m in ('numpy', 'torch', 'jax') if m in sys.modules])"
    assert run(code, environment=python_environment).stdout.strip() == "['numpy']"


def test_named_library_that_is_missing_is_an_import_error_and_nothing_else_is_tried(monkeypatch):
    monkeypatch.setenv("GQSGD_LIBRARY", "/nowhere/libgqsgd.so")
    with pytest.raises(ImportError) as caught:
        _abi._opened()
    assert "GQSGD_LIBRARY=/nowhere/libgqsgd.so" in str(caught.value)
    assert "mesonpy" not in str(caught.value)
    assert caught.value.path == "/nowhere/libgqsgd.so"


def test_without_any_library_every_place_is_named(monkeypatch):
    monkeypatch.delenv("GQSGD_LIBRARY")
    monkeypatch.setattr(_abi, "SONAME", "libgqsgd-absent.so.0")
    with pytest.raises(ImportError) as caught:
        _abi._opened()
    for place in ("GQSGD_LIBRARY", ".gqsgd.mesonpy.libs", str(PACKAGE), "libgqsgd-absent.so.0"):
        assert place in str(caught.value)


def test_first_use_tries_again_after_a_failure(copied_package):
    site, environment = copied_package
    code = """
import os, sys, gqsgd
try:
    gqsgd.version()
except ImportError:
    os.environ["GQSGD_LIBRARY"] = sys.argv[1]
    print(gqsgd.version())
"""
    environment["GQSGD_LIBRARY"] = str(site / "absent.so")
    done = run(code, str(LIBRARY), environment=environment)
    assert done.stdout.strip() == gqsgd.version(), done.stderr


def test_wheels_of_every_kind_are_looked_for(load_tool, tmp_path):
    tool = load_tool("build_wheel")
    for kind in tool.KINDS:
        project = tmp_path / f"{kind}.toml"
        shutil.copy(tool.ROOT / "pyproject.toml", project)
        tool.name_project(project, kind)
        name = re.search('^name = "(.*)"$', project.read_text(), re.MULTILINE)[1].replace("-", "_")
        assert any(folder.name == f".{name}.mesonpy.libs" for folder in _abi._folders()), kind


@pytest.mark.parametrize("folder", [".gqsgd.mesonpy.libs", ".gqsgd_cu12.mesonpy.libs", "gqsgd"])
def test_library_beside_the_package_is_found(copied_package, folder):
    site, environment = copied_package
    (site / folder).mkdir(exist_ok=True)
    installed = site / folder / "libgqsgd.so.0.1.0"
    shutil.copy(LIBRARY, installed)
    done = run("import gqsgd; print(gqsgd.library_path())", environment=environment)
    assert done.stdout.strip() == str(installed), done.stderr


def test_named_library_comes_before_the_one_beside_the_package(copied_package):
    site, environment = copied_package
    shutil.copy(LIBRARY, site / "gqsgd" / "libgqsgd.so")
    environment["GQSGD_LIBRARY"] = str(LIBRARY)
    done = run("import gqsgd; print(gqsgd.library_path())", environment=environment)
    assert Path(done.stdout.strip()).samefile(LIBRARY), done.stderr


def test_a_library_of_something_else_is_refused_by_the_function_it_lacks(monkeypatch):
    monkeypatch.setenv("GQSGD_LIBRARY", "libc.so.6")
    with pytest.raises(ImportError, match=r"libc\.so\.6 has no gqsgd_status_name"):
        _abi._prepared(_abi._opened())


def test_a_library_of_another_architecture_is_not_said_to_be_missing(tmp_path, monkeypatch):
    """The loader says "No such file" of it."""
    foreign = bytearray(LIBRARY.read_bytes())
    foreign[18:20] = b"\xf3\x00"  # e_machine: RISC-V
    (tmp_path / "libgqsgd.so").write_bytes(foreign)
    monkeypatch.setenv("GQSGD_LIBRARY", f"{tmp_path}/libgqsgd.so")
    with pytest.raises(ImportError) as caught:
        _abi._opened()
    assert f"{tmp_path}/libgqsgd.so is for another architecture than" in str(caught.value)
    assert os.uname().machine in str(caught.value)


def test_a_fifo_as_a_library_is_refused_at_once(tmp_path, monkeypatch):
    fifo = tmp_path / "libgqsgd.so"
    os.mkfifo(fifo)
    environment = {**os.environ, "GQSGD_LIBRARY": str(fifo)}
    done = run("import gqsgd; gqsgd.version()", environment=environment)
    assert f"{fifo} is not a regular file" in done.stderr
    monkeypatch.setenv("GQSGD_NONE", str(fifo))
    with pytest.raises(ImportError, match="libgqsgd.so is not a regular file"):
        _companion.Companion("libnone.so.0", "folder", "GQSGD_NONE", "It is never built").open()


def test_a_library_of_another_major_version_is_refused(monkeypatch):
    monkeypatch.setattr(_abi, "VERSION", (7, 2, 1))
    with pytest.raises(ImportError, match=r"is version 0\.\d+\.\d+: .* which is 7\.2\.1"):
        _abi._prepared(_abi._opened())


def test_threads_that_load_at_once_get_one_library(monkeypatch):
    monkeypatch.setattr(_abi, "_library", None)
    loaded = []
    threads = [threading.Thread(target=lambda: loaded.append(_abi.library())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(loaded) == 8
    assert len(set(map(id, loaded))) == 1


def test_module_run_prints_versions_and_paths(python_environment):
    done = python("-m", "gqsgd", environment=python_environment)
    assert done.returncode == 0, done.stderr
    for part in (gqsgd.__version__, gqsgd.version(), gqsgd.build_info(), gqsgd.library_path()):
        assert part in done.stdout
    present, _, optional = done.stdout.partition("\noptional")
    assert "threads, processes of this machine" in present
    jax = _companion.JAX.path() if importlib.util.find_spec("jax") else None
    for found, name in ((jax, "JAX"), (_companion.MPI.path(), "MPI")):
        assert (found in present) if found else (name in optional)
    assert "CUDA" in (optional if ", no cuda" in gqsgd.build_info() else present)
    assert "if built" not in done.stdout


@pytest.fixture
def report_of(monkeypatch, tmp_path, capsys):
    """What `python -m gqsgd` prints where the library is alone; PyTorch and JAX have `version`."""

    monkeypatch.setattr(ucx, "loaded", lambda: None)
    monkeypatch.setenv(ucx.VARIABLE, "/nowhere/libucp.so.0")

    def run(version):
        monkeypatch.setattr(_abi, "library_path", lambda: str(tmp_path / "libgqsgd.so.0.1.0"))
        monkeypatch.setattr(report, "_version_of", lambda distribution: version)
        assert report.main() == 0
        return capsys.readouterr().out

    return run


def test_module_run_says_how_to_get_what_is_not_there(report_of):
    optional = report_of("").partition("\noptional")[2]
    assert "PyTorch, for gqsgd.torch: not installed; `pip install torch` adds it" in optional
    assert "JAX, for gqsgd.jax: not installed; `pip install jax` adds it" in optional
    assert "MPI: not in this build; `pip install . -Csetup-args=-Dmpi=enabled` adds it" in optional
    assert "hint: `pip install libucx-cu12` or `apt-get install libucx0` adds it" in optional


def test_module_run_says_which_ucx_is_there(report_of, monkeypatch):
    monkeypatch.setattr(ucx, "report", lambda: ucx.Ucx("/opt/libucp.so.0", "9.8.7"))
    present = report_of("").partition("\noptional")[0]
    assert "ranks on several machines: UCX 9.8.7 (/opt/libucp.so.0)" in present


def test_module_run_tells_jax_from_the_library_that_it_needs(report_of):
    present, _, optional = report_of("9.8.7").partition("\noptional")
    assert "PyTorch 9.8.7, for gqsgd.torch" in present
    assert "JAX 9.8.7 is installed, libgqsgd_jax.so is not beside the library" in optional


def test_a_companion_is_found_by_its_variable_or_beside_the_library(tmp_path, monkeypatch):
    monkeypatch.setattr(_abi, "library_path", lambda: str(tmp_path / "libgqsgd.so.0.1.0"))
    companion = _companion.Companion("libnone.so.0", "folder", "GQSGD_NONE", "It is never built")
    assert companion.path() is None
    with pytest.raises(ImportError) as caught:
        companion.open()
    for part in ("libnone could not be loaded", "It is never built", "GQSGD_NONE (not set)"):
        assert part in str(caught.value)
    assert f"{tmp_path}/folder/libnone.so.0" in str(caught.value)
    (tmp_path / "libnone.so.0.1.0").touch()
    assert companion.path() == str(tmp_path / "libnone.so.0.1.0")
    monkeypatch.setenv("GQSGD_NONE", "/nowhere/libnone.so")
    with pytest.raises(ImportError, match="/nowhere/libnone.so"):
        companion.open()


def test_module_run_without_a_library_fails_and_says_where_it_looked(python_environment):
    environment = {**python_environment, "GQSGD_LIBRARY": "/nowhere/libgqsgd.so"}
    done = python("-m", "gqsgd", environment=environment)
    assert done.returncode == 1
    assert "/nowhere/libgqsgd.so" in done.stderr
    assert "Traceback" not in done.stderr
