"""tools/gpu_check --pack and --built: programs that were built elsewhere, here shell scripts.

No device: nvidia-smi is a script, and what the programs would find is not tested.
"""

import json
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

#: Parts that are programs of tests/gpu, then of bench/gpu.
PROGRAMS = ("isa", "isa_extended", "adaptive", "batch", "step", "sparse_entries", "device_api",
            "gate", "stream", "random", "local", "fused", "embedding", "process", "nccl", "nccl",
            "256_MiB", "25_MiB", "local", "fused", "nccl")
SMI = "#!/bin/sh\necho 'H200, 580.1, 9.0, 1 MiB, 1 MHz, 1 MHz, 1 MHz, 1 MHz, 700 W, x, y'\n"


def script(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def gpu_check(root, path, *arguments):
    """The check with no programs but those in `path`, and Python without site-packages."""
    return subprocess.run([sys.executable, "-S", root / "tools/gpu_check", *arguments], timeout=120,
                          capture_output=True, text=True, env={"PATH": f"{path}:/usr/bin:/bin"})


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    """What --pack writes of a folder with every program of the parts; each prints its name."""
    root = Path(__file__).resolve().parents[3]
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(root / "tools"))
        from gpu_lib.parts import targets
    folder = tmp_path_factory.mktemp("pack")
    for target in targets():
        script(folder / "B" / target, f"#!/bin/sh\necho {target}\n")
    (folder / "B/libgqsgd.so").symlink_to("libgqsgd.so.0.1.0")
    (folder / "B/meson-info").mkdir()
    (folder / "B/meson-info/intro-compilers.json").write_text(
        '{"host": {"cuda": {"version": "13.0.88"}}}')
    file = folder / "check.tar.xz"
    packed = subprocess.run([sys.executable, root / "tools/gpu_check", "--pack", file, "--build",
                             folder / "B"], capture_output=True, text=True, timeout=240)
    assert packed.returncode == 0, packed.stdout + packed.stderr
    assert "unpack it, where there is a driver from 580 on, for CUDA 13, then" in packed.stdout
    assert sorted(path.name for path in folder.iterdir()) == ["B", "check.tar.xz"]
    return file


@pytest.fixture
def unpacked(archive, tmp_path):
    """The check in an otherwise empty folder. One small test is in the place of those of arrays."""
    with tarfile.open(archive) as opened:
        opened.extractall(tmp_path / "away")
    folder = tmp_path / "away/gqsgd_check"
    arrays = folder / "tests/bindings/gpu/test_framework_arrays.py"
    assert arrays.is_file()
    arrays.write_text("import pytest\n\n\ndef test_pytest_is_packed():\n"
                      f"    assert pytest.__file__.startswith({str(folder / 'python')!r})\n")
    return folder


def test_packed_programs_run_without_a_build_and_write_three_files(unpacked, tmp_path):
    script(tmp_path / "bin/nvidia-smi", SMI)
    result = gpu_check(unpacked, tmp_path / "bin", "--built", "build", "--quick")
    files = sorted(path.name for path in (unpacked / "build/gpu_check").iterdir())
    assert files == ["all.log", "gpu.json", "gpu.md"], result.stdout + result.stderr
    parts = json.loads((unpacked / "build/gpu_check/gpu.json").read_text())["parts"]
    verdicts = {part["name"]: part["verdict"] for part in parts}
    programs = [name for name in verdicts if name.startswith(("test", "bench"))]
    assert tuple(name.split(" ")[1] for name in programs) == PROGRAMS
    assert {verdicts[name] for name in programs} == {"ok"}
    assert "configure" not in verdicts and "build" not in verdicts
    assert verdicts["arrays"] == "ok", parts[-1]
    assert "tests/gpu/gpu_isa" in (unpacked / "build/gpu_check/all.log").read_text()
    assert (unpacked / "build/libgqsgd.so").resolve().name == "libgqsgd.so.0.1.0"


def test_a_program_that_was_not_built_is_a_failure_that_names_it(unpacked, tmp_path):
    script(tmp_path / "bin/nvidia-smi", SMI)
    (unpacked / "build/tests/gpu/gpu_local").unlink()
    result = gpu_check(unpacked, tmp_path / "bin", "--built", "build", "--quick")
    assert result.returncode == 1
    assert "tests/gpu/gpu_local not found in" in result.stdout
    assert "NOT RUN, which counts as a failure: test local" in result.stdout


def test_without_a_device_every_part_is_named_as_not_run(unpacked, tmp_path):
    result = subprocess.run([sys.executable, unpacked / "tools/gpu_check", "--built", "build"],
                            capture_output=True, text=True, timeout=60,
                            env={"PATH": str(tmp_path)})
    assert result.returncode == 1
    assert ("there is no nvidia-smi; this build needs a driver from 580 on, for CUDA 13; not run: "
            "test isa, ") in result.stdout
    assert "sanitizer memcheck nccl" in result.stdout and "arrays" in result.stdout


@pytest.mark.parametrize("driver, old", [("575.57", True), ("580.1", False), ("x", False)])
def test_a_driver_that_is_too_old_is_named(unpacked, tmp_path, driver, old):
    script(tmp_path / "bin/nvidia-smi", SMI.replace("580.1", driver))
    said = f"Driver {driver} is too old: this build needs a driver from 580 on, for CUDA 13."
    result = gpu_check(unpacked, tmp_path / "bin", "--built", "build", "--quick")
    page = (unpacked / "build/gpu_check/gpu.md").read_text()
    assert page.count(said) == int(old), page
    assert (said in result.stdout.splitlines()[0]) == old


def test_a_build_of_cuda_12_needs_its_driver(root, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(root / "tools"))
    from gpu_lib.driver import COMPILERS, needs_of, too_old
    assert needs_of(tmp_path) == too_old(tmp_path, "470.1") == ""
    (tmp_path / "meson-info").mkdir()
    (tmp_path / COMPILERS).write_text('{"host": {"cuda": {"version": "12.9.86"}}}')
    assert needs_of(tmp_path) == "a driver from 530 on, for CUDA 12"
    assert too_old(tmp_path, "525.60.13") and not too_old(tmp_path, "535.1")


def test_tests_that_were_all_skipped_are_not_run(unpacked, tmp_path):
    script(tmp_path / "bin/nvidia-smi", SMI)
    arrays = unpacked / "tests/bindings/gpu/test_framework_arrays.py"
    arrays.write_text("import pytest\n\n\ndef test_a():\n    pytest.skip('no torch')\n")
    result = gpu_check(unpacked, tmp_path / "bin", "--built", "build", "--quick")
    assert result.returncode == 1
    [named] = re.findall("NOT RUN, which counts as a failure: (.*)[.]", result.stdout)
    assert named.split(", ")[-1] == "arrays"


def test_a_build_without_kernels_is_not_packed(root, tmp_path):
    result = subprocess.run([sys.executable, root / "tools/gpu_check", "--pack", tmp_path / "a.xz",
                             "--build", tmp_path], capture_output=True, text=True, timeout=60)
    assert result.returncode == 1 and "does not have libgqsgd.so.0.1.0, " in result.stdout
    assert not (tmp_path / "a.xz").exists()


def test_only_parts_that_succeeded_make_a_good_check(root, monkeypatch):
    monkeypatch.syspath_prepend(str(root / "tools"))
    from gpu_lib.command import status_of
    verdicts = lambda *names: [{"verdict": name} for name in names]  # noqa: E731
    assert status_of(verdicts("ok", "ok")) == 0
    for bad in ("not run", "failed", "timed out"):
        assert status_of(verdicts("ok", bad)) == 1


def test_equality_comes_before_times_and_the_sanitizer_before_arrays(root, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(root / "tools"))
    from gpu_lib.parts import all_parts
    kinds = [part.name.split()[0] for part in all_parts(tmp_path, tmp_path, "90", quick=False)]
    order = list(dict.fromkeys(kinds))
    assert order == ["configure", "build", "test", "bench", "sanitizer", "arrays"]
