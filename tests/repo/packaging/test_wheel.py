"""pip's way: a source distribution, the wheel built from it, that wheel in an empty environment.

Compiles the library and gqsgd-plan once, without optimisation, in a quarter of the time.
"""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile

import pytest

pytestmark = pytest.mark.timeout(900)  # the library is compiled, perhaps on a busy machine

_KEPT_OUT = ("PYTHONPATH", "GQSGD_LIBRARY", "GQSGD_BUILD")
CLEAN = {name: value for name, value in os.environ.items() if name not in _KEPT_OUT}


def run(*command, cwd):
    done = subprocess.run(command, cwd=cwd, env=CLEAN, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def source_distribution(tmp_path_factory, root, load_tool):
    """Made of the tree as it is. Meson packs what git knows: a copy gets a history of its own."""
    folder = tmp_path_factory.mktemp("sdist")
    tree = folder / "tree"
    shutil.copytree(root, tree, ignore=load_tool("build_wheel").LEFT_OUT)
    run("git", "init", "-q", cwd=tree)
    run("git", "add", "-A", cwd=tree)
    author = ["-c", "user.name=test", "-c", "user.email=test@localhost"]
    run("git", *author, "commit", "-q", "-m", "tree", cwd=tree)
    run(sys.executable, "-c", f"import mesonpy; mesonpy.build_sdist({str(folder)!r})", cwd=tree)
    (archive,) = folder.glob("*.tar.gz")
    return archive


@pytest.fixture(scope="module")
def wheel(source_distribution):
    folder = source_distribution.parent
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    options = ["--no-build-isolation", "--no-deps", "--no-index", "-w", folder,
               "--config-settings=setup-args=-Doptimization=0"]
    run(*pip, "wheel", *options, source_distribution, cwd=folder)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed_python(wheel, tmp_path_factory):
    """Python of a fresh environment that has the wheel, and NumPy of this one."""
    folder = tmp_path_factory.mktemp("installed") / "venv"
    run(sys.executable, "-m", "venv", folder, cwd=folder.parent)
    python = folder / "bin" / "python"
    run(python, "-m", "pip", "install", "--no-deps", "--no-index", wheel, cwd=folder.parent)
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "numpy_from_outside.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return python


def files_of(wheel):
    return [name for name in zipfile.ZipFile(wheel).namelist() if "dist-info" not in name]


def test_the_wheel_is_for_any_python_of_this_platform(wheel, root):
    header = (root / "include" / "gqsgd.h").read_text()
    version = ".".join(re.findall(r"#define GQSGD_VERSION_\w+ (\d+)", header))
    assert re.fullmatch(rf"gqsgd-{re.escape(version)}-py3-none-linux_\w+\.whl", wheel.name)


def test_the_wheel_holds_the_package_its_libraries_gqsgd_plan_and_nothing_else(wheel, root):
    package = root / "bindings" / "python"
    expected = {
        path.relative_to(package).as_posix()
        for path in (package / "gqsgd").rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    found = {name.partition("purelib/")[2] for name in files_of(wheel) if "purelib/" in name}
    assert found == expected
    scripts = [name for name in files_of(wheel) if "/scripts/" in name]
    assert [name.rpartition("/")[2] for name in scripts] == ["gqsgd-plan"]
    libraries = [name for name in files_of(wheel)
                 if "purelib/" not in name and name not in scripts]
    folders, names = zip(*(name.rsplit("/", 1) for name in libraries))
    assert set(folders) == {".gqsgd.mesonpy.libs"}
    assert {name.partition(".so")[0] for name in names} == {"libgqsgd", "libgqsgd_jax"}


def test_the_installed_package_averages_from_anywhere(installed_python, tmp_path, root):
    lines = run(installed_python, root / "examples/python/average.py", cwd=tmp_path).splitlines()
    assert sorted(line.partition(":")[0] for line in lines) == [f"rank {k}" for k in range(4)]
    assert len({line.partition(":")[2] for line in lines}) == 1


def test_the_installed_package_says_what_it_found(installed_python, tmp_path):
    said = run(installed_python, "-m", "gqsgd", cwd=tmp_path)
    site = str(installed_python.parent.parent)
    assert re.search(rf"library +[\d.]+ from {re.escape(site)}/.*mesonpy\.libs/libgqsgd\.so", said)
    assert re.search(rf"JAX .*: {re.escape(site)}/.*mesonpy\.libs/libgqsgd_jax\.so", said)
    assert re.search(r"cpu stages \w+", said)


def test_the_installed_gqsgd_plan_runs_from_anywhere(installed_python, tmp_path):
    plan = installed_python.parent / "gqsgd-plan"
    advice = run(plan, "--advise", "--ranks", "4", "--count", "6M", "--rate", "1gbit", cwd=tmp_path)
    assert re.search(r"^take [\w-]+: a step of", advice, re.MULTILINE), advice
    assert "gqsgd" not in run("ldd", plan, cwd=tmp_path)  # the library is in it


def test_the_library_needs_no_cpp_library_of_the_process(installed_python, tmp_path):
    """The one that came first may be older than the compiler's: conda's often is."""
    (site,) = installed_python.parent.parent.glob("lib/python*/site-packages")
    (library,) = site.glob(".gqsgd.mesonpy.libs/libgqsgd.so*")
    assert "libstdc++" not in run("ldd", library, cwd=tmp_path)


def test_the_handler_of_jax_loads_from_the_wheel(installed_python, tmp_path):
    code = "from gqsgd._companion import JAX; print(JAX.open().gqsgd_jax_add is not None)"
    assert run(installed_python, "-c", code, cwd=tmp_path) == "True\n"


def test_the_source_distribution_has_no_build_and_no_bytecode(source_distribution):
    listing = run("tar", "tzf", source_distribution, cwd=source_distribution.parent).splitlines()
    assert any(name.endswith("/src/call/allreduce.cpp") for name in listing)
    assert [name for name in listing if "__pycache__" in name or "/build/" in name] == []
