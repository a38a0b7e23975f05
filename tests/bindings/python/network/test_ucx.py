"""Finding UCX: what this process has loaded, the variable, pip's package, the dynamic loader."""

import subprocess
import sys

import gqsgd
import pytest
from gqsgd.network import ucx



@pytest.fixture
def library_of_version(tmp_path):
    """A function that makes a libucp.so.0 of a version, which has nothing but that."""
    def make(version):
        source, file = tmp_path / "ucp.c", tmp_path / f"{version}/libucp.so.0"
        file.parent.mkdir()
        source.write_text(
            f'const char *ucp_get_version_string(void) {{ return "{version}"; }}')
        subprocess.run(["cc", "-shared", "-fPIC", source, "-o", file], check=True, timeout=60)
        return str(file)

    return make


@pytest.fixture
def nothing_loaded(monkeypatch, tmp_path):
    """A process without a UCX, a variable or pip's package."""
    maps = tmp_path / "maps"
    maps.write_text("7f00-7f01 r-xp 0 08:01 1   /usr/lib/libucs.so.0\n7f00-7f01 rw-p 0 00:00 0 \n")
    monkeypatch.setattr(ucx, "_MAPS", maps)
    monkeypatch.setattr(ucx, "_PACKAGE", "no_such_package_of_pip")
    monkeypatch.delenv(ucx.VARIABLE, raising=False)
    return maps


@pytest.fixture
def package(monkeypatch, tmp_path):
    """A package that has its library where libucx has."""
    file = tmp_path / "package_of_pip/lib/libucp.so.0"
    file.parent.mkdir(parents=True)
    file.touch()
    (tmp_path / "package_of_pip/__init__.py").write_text("raise ImportError('it is not imported')")
    monkeypatch.syspath_prepend(str(tmp_path))
    return "package_of_pip", str(file)


def test_that_of_pip_is_named_where_no_other_is(nothing_loaded, package, monkeypatch):
    options = {"timeout_ms": 5}
    assert ucx.with_path(options) == options
    monkeypatch.setattr(ucx, "_PACKAGE", package[0])
    assert ucx.with_path(options) == {"timeout_ms": 5, "ucx": package[1]}
    assert ucx.with_path({"ucx": "/mine.so"}) == {"ucx": "/mine.so"}
    monkeypatch.setenv(ucx.VARIABLE, "/opt/libucp.so")  # the library reads it
    assert ucx.with_path(options) == options
    monkeypatch.delenv(ucx.VARIABLE)
    with nothing_loaded.open("a") as maps:  # the library uses that one, whatever the options say
        maps.write("7f00-7f01 r-xp 0 08:01 2   /usr/lib/libucp.so.0.0.0\n")
    assert ucx.with_path(options) == options


@pytest.mark.parametrize(("line", "path"), [
    ("7f-8f r-xp 0 08:01 2 /a/libucp.so.0.0.0", "/a/libucp.so.0.0.0"),
    ("7f-8f r-xp 0 08:01 2 /a/libucp-4711.so.0.0.0", None),  # of a wheel, for itself alone
    ("7f-8f r-xp 0 08:01 2 /a/b c/libucp.so.0", "/a/b c/libucp.so.0"),
    ("7f-8f r-xp 0 08:01 2 /a/libucp.so.0 (deleted)", None),
    ("7f-8f r--p 0 08:01 2 /a/libucp.conf", None),
])
def test_names_of_a_loaded_library(nothing_loaded, line, path):
    nothing_loaded.write_text(line + "\n")
    assert ucx.loaded() == path


def test_a_library_that_is_not_there_is_named_with_the_two_commands(nothing_loaded, monkeypatch):
    monkeypatch.setenv(ucx.VARIABLE, "/nowhere/libucp.so.0")
    with pytest.raises(gqsgd.Unsupported) as caught:
        ucx.report()
    for part in ("/nowhere/libucp.so.0", "pip install libucx-cu12", "apt-get install libucx0"):
        assert part in str(caught.value)


def test_the_version_is_the_one_of_the_file(nothing_loaded, monkeypatch, library_of_version):
    file = library_of_version("1.22.3")
    monkeypatch.setenv(ucx.VARIABLE, file)
    assert str(ucx.report()) == f"UCX 1.22.3 ({file})"


@pytest.mark.parametrize("version", ["1.12.1", "2.0.0", "unknown"])
def test_a_version_that_the_library_does_not_take_is_named_with_the_two_commands(
        nothing_loaded, monkeypatch, library_of_version, version):
    file = library_of_version(version)
    monkeypatch.setenv(ucx.VARIABLE, file)
    with pytest.raises(gqsgd.Unsupported) as caught:
        ucx.report()
    for part in (f"UCX {version} ({file})", "1.13", "pip install", "apt-get install"):
        assert part in str(caught.value)


def test_a_library_of_something_else_is_no_ucx(nothing_loaded, monkeypatch):
    monkeypatch.setenv(ucx.VARIABLE, "libc.so.6")
    with pytest.raises(gqsgd.Unsupported, match="ucp_get_version_string"):
        ucx.report()


def test_finding_one_loads_none(python_environment):
    """The library does, with settings that UCX reads when it is loaded."""
    code = "from gqsgd.network import ucx; ucx.with_path({}); print(ucx.loaded())"
    done = subprocess.run([sys.executable, "-c", code], env=python_environment,
                          capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "None"
