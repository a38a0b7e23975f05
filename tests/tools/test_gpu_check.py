"""tools/gpu_check where there is no GPU: it says so; and what it makes of parts and numbers.

The numbers are made up: a device answers for its own.
"""

import json
import subprocess
import sys

import pytest

SMI_LINE = "NVIDIA H200, 580.1, 9.0, 143771 MiB, 345 MHz, 3201 MHz, 1980 MHz, 3201 MHz, 700 W, x, y"


@pytest.fixture
def library(root, monkeypatch):
    """The modules of tools/gpu_lib."""
    monkeypatch.syspath_prepend(str(root / "tools"))
    from gpu_lib import device, parts, report
    return {"device": device, "parts": parts, "report": report}


def row(stage, kind, us, gb_per_s, of_copy, target):
    return {"stage": stage, "format": kind, "us": us, "spread_us": 0.1, "gb_per_s": gb_per_s,
            "of_copy": of_copy, "target": target}


BENCH = {"values": 1024, "sets": 2, "rounds": 5, "rows": [
    row("copy", "cudaMemcpyAsync", 8.0, 4000.0, 1.0, 1),
    row("norm", "paper-gl8", 4.1, 3900.0, 0.975, 0.92),
    row("reduce", "none", 12.0, 4000.0, 1.0, 0),
    row("reduce", "paper-gl8", 3.0, 4000.0, 1.0, 0.93),
    row("reduce", "paper-ge8", 6.0, 2000.0, 0.5, 0.80)]}


def sample_report(library):
    return {"command": "tools/gpu_check", "date": "2026-01-01 00:00 UTC", "seconds": 100.0,
            "device": library["device"].read_device(SMI_LINE), "toolkit": "release 13.0",
            "source": "abc", "benches": {"256_MiB": BENCH}, "parts": [
                {"name": "build", "verdict": "ok", "seconds": 1.0, "said": "", "command": "ninja"},
                {"name": "test isa", "verdict": "failed", "seconds": 2.0, "said": "a | b\nc",
                 "command": "gpu_isa"}]}


def test_without_a_gpu_it_says_so_in_a_sentence(root, tmp_path):
    result = subprocess.run([sys.executable, root / "tools/gpu_check", "--out", tmp_path / "out"],
                            capture_output=True, text=True, timeout=60,
                            env={"PATH": str(tmp_path)})
    assert result.returncode == 77
    assert result.stdout == ("gpu_check: this machine has no GPU: there is no nvidia-smi; nothing "
                             "was built or checked\n")
    assert not (tmp_path / "out").exists()


def test_a_driver_that_finds_no_device_is_quoted(root, tmp_path):
    fake = tmp_path / "nvidia-smi"
    fake.write_text("#!/bin/sh\necho 'No devices were found'\nexit 6\n")
    fake.chmod(0o755)
    result = subprocess.run([sys.executable, root / "tools/gpu_check"], capture_output=True,
                            text=True, timeout=60, env={"PATH": f"{tmp_path}:/bin"})
    assert result.returncode == 77 and "nvidia-smi says: No devices were found" in result.stdout


def test_an_architecture_is_read_from_the_device(library):
    device = library["device"].read_device(SMI_LINE)
    assert library["device"].architecture_of(device) == "90"
    with pytest.raises(library["device"].NoDevice, match="not understood: a, b"):
        library["device"].read_device("a, b")


def test_the_page_has_verdicts_targets_and_what_failed(library):
    page = library["report"].page(sample_report(library))
    assert "| test isa | failed | 2.0 | c |" in page
    assert "| norm | paper-gl8 | 4.10 | 0.10 | 3900 | 0.975 | 0.92 | reached |" in page
    assert "| reduce | paper-ge8 | 6.00 | 0.10 | 2000 | 0.500 | 0.8 | MISSED |" in page
    assert "## test isa: failed\n\n`gpu_isa`\n\n```\na | b\nc\n```" in page


def test_omegas_are_times_beside_a_float32_addition(library):
    assert library["report"].omegas_of(BENCH) == {"paper-gl8": (1.0, 0.25), "paper-ge8": (2.0, 0.5)}
    assert library["report"].omegas_of({"rows": BENCH["rows"][:2]}) == {}


def test_sizes_that_were_cut_off_are_left_out(library, tmp_path):
    (tmp_path / "bench_25_MiB.json").write_text('{"rows": [')
    (tmp_path / "bench_256_MiB.json").write_text(json.dumps(BENCH))
    assert library["report"].read_benches(tmp_path) == {"256_MiB": BENCH}


def test_each_part_ends_by_itself_and_keeps_no_other_from_running(library, tmp_path):
    part = library["parts"].Part
    shell = lambda script: ["sh", "-c", script]  # noqa: E731
    parts = [part("build", shell("echo made"), 10, needs=()),
             part("bad", shell("echo why; exit 3"), 10),
             part("late", shell("true"), 0.5),
             part("absent", ["nothing"], 10, missing="nothing not found"),
             part("idle", shell("echo no device; exit 77"), 10),
             part("after", shell("echo $WORD"), 10, {"WORD": "said"}),
             part("behind", shell("true"), 10, needs=("bad",))]
    results = library["parts"].run_all(parts, tmp_path, 60, say=lambda *_, **__: None)
    found = {result["name"]: (result["verdict"], result["said"]) for result in results}
    assert found == {"build": ("ok", "made"), "bad": ("failed", "why"),
                     "late": ("not run", "the time of the whole check is spent"),
                     "absent": ("not run", "nothing not found"), "idle": ("not run", "no device"),
                     "after": ("ok", "said"), "behind": ("not run", "bad did not succeed")}


def test_a_part_that_hangs_is_ended_with_what_it_started(library, tmp_path):
    part = library["parts"].Part("hang", ["sh", "-c", "echo begun; sleep 60 & wait"], 1.5, needs=())
    [result] = library["parts"].run_all([part], tmp_path, 60, say=lambda *_, **__: None)
    assert (result["verdict"], result["said"]) == ("timed out", "begun")
    assert result["seconds"] < 20


def test_a_program_that_the_driver_holds_keeps_no_other_from_running(library, tmp_path,
                                                                    monkeypatch):
    monkeypatch.setattr(library["parts"], "ends_soon", lambda process: process.wait() is None)
    part = library["parts"].Part("held", ["sleep", "60"], 1.2, needs=())
    [result] = library["parts"].run_all([part], tmp_path, 60, say=lambda *_, **__: None)
    assert result["verdict"] == "timed out" and "the driver holds it" in result["said"]


def test_nccl_is_that_of_a_package_unless_named(library, tmp_path, monkeypatch):
    parts = library["parts"]
    file = tmp_path / "nvidia/nccl/lib/libnccl.so.2"
    file.parent.mkdir(parents=True)
    file.touch()
    monkeypatch.delenv("GQSGD_NCCL_LIBRARY", raising=False)
    monkeypatch.setattr(parts, "find_spec", lambda name: None)
    assert parts.nccl_environment() == {}
    spec = type("Spec", (), {"submodule_search_locations": [str(tmp_path / "nvidia/nccl")]})
    monkeypatch.setattr(parts, "find_spec", lambda name: spec)
    assert parts.nccl_environment() == {"GQSGD_NCCL_LIBRARY": str(file)}
    monkeypatch.setenv("GQSGD_NCCL_LIBRARY", "named.so")
    assert parts.nccl_environment() == {}


def test_every_part_names_a_program_of_the_build(library, root, tmp_path):
    parts = library["parts"].all_parts(tmp_path / "build", tmp_path, "90", quick=False)
    sources = (root / "tests/gpu/meson.build").read_text()
    assert all(f"'{name}': [" in sources for name in (*library["parts"].TESTS, "nccl"))
    names = [part.name for part in parts]
    assert names[:2] == ["configure", "build"] and "bench 25_MiB" in names
    quick = library["parts"].all_parts(tmp_path / "build", tmp_path, "90", quick=True)
    assert {part.name for part in quick} < set(names)
