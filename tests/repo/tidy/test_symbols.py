"""Objects built once per instruction set define no weak symbol."""

import subprocess

from symbols import weak_definitions


def test_isa_objects_hold_no_weak_symbol(build_directory):
    objects = sorted(build_directory.glob("kernels/**/*stages*.o"))
    assert objects, f"no object of kernels/cpu/stages.cpp under {build_directory}"
    assert {path.name: weak for path in objects if (weak := weak_definitions(path))} == {}


def test_a_weak_symbol_is_seen(tmp_path):
    source = tmp_path / "weak.cpp"
    source.write_text("inline int twice(int a) { return a + a; }\nint (*use)(int) = twice;\n")
    subprocess.run(["g++", "-O0", "-c", source, "-o", tmp_path / "weak.o"], check=True)
    assert weak_definitions(tmp_path / "weak.o") == ["twice(int)"]
