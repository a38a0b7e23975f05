"""tools/gpu_check where there is no GPU: it says so; and what it makes of parts and numbers.

The numbers are made up: a device answers for its own.
"""

import json
import re
import subprocess
import sys
import threading

import pytest

SMI_LINE = "NVIDIA H200, 580.1, 9.0, 143771 MiB, 345 MHz, 3201 MHz, 1980 MHz, 3201 MHz, 700 W, x, y"


@pytest.fixture
def library(root, monkeypatch):
    """The modules of tools/gpu_lib."""
    monkeypatch.syspath_prepend(str(root / "tools"))
    from gpu_lib import device, machine, parts, report
    return {"device": device, "machine": machine, "parts": parts, "report": report}


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


def test_devices_that_one_program_can_use_are_counted(library):
    count = library["device"].usable_count
    assert count([SMI_LINE] * 4, {}) == 4
    assert count([SMI_LINE] * 4, {"CUDA_VISIBLE_DEVICES": "2,0"}) == 2
    assert count([SMI_LINE] * 4, {"CUDA_VISIBLE_DEVICES": ""}) == 0
    assert count([SMI_LINE[:-1] + "Enabled"] * 4, {}) == 1


@pytest.mark.parametrize("devices, quick, ranks", [(2, False, [2]), (4, False, [2, 3]),
                                                   (8, False, [2, 3, 5, 8]), (8, True, [8])])
def test_processes_on_several_devices_must_have_fused_kernels(library, tmp_path, devices, quick,
                                                              ranks):
    found = library["parts"].all_parts(tmp_path, tmp_path, "90", quick, devices)
    [part] = [part for part in found if "--fused" in part.command and "test" in part.name]
    assert part.name == "test process fused" and part.needs == ("build",)
    assert part.command == [tmp_path / "tests/gpu/gpu_process", "--fused", *ranks]


def test_a_report_names_no_folder_of_its_machine(library, root, tmp_path):
    found = library["parts"].built_parts(root / "build", tmp_path, False, 8)
    shown = [library["parts"].shown(part.command, tmp_path) for part in found]
    assert "build/bench/gpu/gpu_nccl_perf --calls 30 --limit 30" in shown
    assert any(line.startswith("python3 -m pytest") for line in shown)
    assert not any(str(folder) in line for line in shown for folder in (root, tmp_path))


def test_processes_that_share_a_device_need_no_fused_kernels(library, tmp_path):
    found = library["parts"].all_parts(tmp_path, tmp_path, "90", False)
    assert "test process" in [part.name for part in found]
    assert "test process fused" not in [part.name for part in found]


@pytest.mark.parametrize("devices, ranks", [(1, []), (2, [2]), (5, [4]), (8, [8]), (16, [8])])
def test_ranks_with_a_device_each_are_measured_where_there_are_several(library, tmp_path, devices,
                                                                       ranks):
    found = library["parts"].all_parts(tmp_path, tmp_path, "90", False, devices)
    assert [part.command[3:] for part in found if part.name == "bench fused devices"] == [
        ["--fused", 1, "--devices", count, "--ranks", count] for count in ranks]


def test_the_page_has_verdicts_targets_and_what_failed(library):
    page = library["report"].page(sample_report(library))
    assert "| test isa | failed | 2.0 | c |" in page
    assert "| norm | paper-gl8 | 4.10 | 0.10 | 3900 | 0.975 | 0.92 | reached |" in page
    assert "| reduce | paper-ge8 | 6.00 | 0.10 | 2000 | 0.500 | 0.8 | MISSED |" in page
    assert "## test isa: failed\n\n`gpu_isa`\n\n```\na | b\nc\n```" in page


def test_the_page_has_clocks_and_tables_of_what_was_measured(library):
    report = sample_report(library)
    assert "\nClocks under load were not read.\n" in library["report"].page(report)
    clocks = {"sm": (1755, 1980), "mem": (3201, 3201)}
    report["parts"] += [
        {"name": "bench 256_MiB", "verdict": "ok", "seconds": 1.0, "said": "", "command": "perf",
         "clocks_mhz": clocks, "printed": "a table that is above"},
        {"name": "bench local", "verdict": "ok", "seconds": 1.0, "said": "", "command": "perf",
         "clocks_mhz": {}, "printed": "ranks  us\n"}]
    report["benches"] = {"256_MiB": BENCH}
    page = library["report"].page(report)
    assert "- bench 256_MiB: SM 1755 to 1980, memory 3201 to 3201\n" in page
    assert "## bench local\n\n```\nranks  us\n```\n" in page
    assert "above" not in page and "bench local: SM" not in page


def test_clocks_are_read_while_something_runs(library, monkeypatch):
    clocks = library["device"].ClocksUnderLoad
    monkeypatch.setattr(clocks, "BEGIN_S", 0.01)
    monkeypatch.setattr(clocks, "EVERY_S", 0.01)
    said, enough = iter([(1755, 3201), None, (1980, 3202)]), threading.Event()

    def ask():
        try:
            return next(said)
        except StopIteration:
            enough.set()
            return None

    with clocks(ask) as watched:
        assert enough.wait(20)
    assert watched.found() == {"sm": (1755, 1980), "mem": (3201, 3202)}
    with clocks(lambda: None) as silent:
        pass
    assert silent.found() == {}


def test_programs_are_found_beside_python_and_in_the_toolkit(library, tmp_path, monkeypatch):
    machine = library["machine"]
    monkeypatch.setattr(machine, "TOOLKIT", tmp_path / "cuda")
    for folder in ("cuda/bin", "home/bin"):
        (tmp_path / folder).mkdir(parents=True)
    found = machine.program_folders({"PATH": "/first:/second", "CUDA_HOME": str(tmp_path / "home"),
                                     "CUDA_PATH": str(tmp_path / "absent")}).split(":")
    assert found[:2] == ["/first", "/second"]
    assert found[-2:] == [str(tmp_path / "home/bin"), str(tmp_path / "cuda/bin")]
    assert machine.program_folders({"PATH": ":".join(found)}).split(":") == found


def test_a_toolkit_elsewhere_is_where_its_nvcc_is(library, tmp_path, monkeypatch):
    machine = library["machine"]
    nvcc = tmp_path / "toolkit/bin/nvcc"
    header = tmp_path / "toolkit/include/cuda_runtime_api.h"
    nvcc.parent.mkdir(parents=True)
    nvcc.write_text("#!/bin/sh\n")
    nvcc.chmod(0o755)
    for name in ("CUDA_PATH", "CUDA_HOME", "CUDA_ROOT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(nvcc.parent))
    absent = tmp_path / "absent"
    assert machine.toolkit_environment(absent) == {}  # a script that calls the compiler
    header.parent.mkdir()
    header.touch()
    assert machine.toolkit_environment(absent) == {"CUDA_PATH": str(tmp_path / "toolkit")}
    assert machine.toolkit_environment(tmp_path) == {}
    monkeypatch.setenv("CUDA_HOME", "/named")
    assert machine.toolkit_environment(absent) == {}


def test_devices_are_open_while_the_check_runs(library, tmp_path):
    awake = library["machine"].awake
    for name in ("nvidia0", "nvidia1", "nvidiactl"):
        (tmp_path / name).touch()
    (tmp_path / "nvidia2").mkdir()  # cannot be opened to write
    with awake(tmp_path) as count:
        assert count == 2
    with awake(tmp_path / "absent") as count:
        assert count == 0


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
             part("idle", shell("echo no NCCL; exit 77"), 10),
             part("blind", shell("echo skipped: no device: driver too old; exit 77"), 10),
             part("after", shell("echo $WORD"), 10, {"WORD": "said"}),
             part("behind", shell("true"), 10, needs=("bad",))]
    results = library["parts"].run_all(parts, tmp_path, 60, say=lambda *_, **__: None)
    found = {result["name"]: (result["verdict"], result["said"]) for result in results}
    assert found == {"build": ("ok", "made"), "bad": ("failed", "why"),
                     "late": ("not run", "the time of the whole check is spent"),
                     "absent": ("not run", "nothing not found"), "idle": ("not run", "no NCCL"),
                     "blind": ("failed", "skipped: no device: driver too old"),
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


def test_a_quick_check_chooses_tests_that_there_are(library, root):
    sources = {"isa": "unit/kernels/isa", "isa_extended": "unit/kernels/isa_extended",
               "local": "gpu/local", "fused": "gpu/fused", "embedding": "gpu/embedding"}
    chosen = dict(library["parts"].QUICK)
    assert all(isinstance(size, int) for size in chosen.pop("process"))
    for name, parts in chosen.items():
        source = (root / f"tests/{sources[name]}_test.cpp").read_text()
        tests = re.findall(r"^TEST\(\w+, (\w+)\)", source, re.MULTILINE)
        assert all(any(part in test for test in tests) for part in parts), name
        assert any(all(part not in test for part in parts) for test in tests), name


def test_what_takes_long_is_not_begun_shortly_before_the_end(library, tmp_path):
    part = library["parts"].Part
    parts = [part("long", ["true"], 60, needs=(), least_s=30),
             part("short", ["true"], 60, needs=())]
    results = library["parts"].run_all(parts, tmp_path, 20, say=lambda *_, **__: None)
    assert [result["verdict"] for result in results] == ["not run", "ok"]
    assert results[0]["said"] == "the time of the whole check is spent"
