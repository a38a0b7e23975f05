"""A program of version 0.1, run with the library of this tree.

client_0_1.c has its declarations frozen, in place of an object file: it can be read and reviewed,
compiles for every processor, and is to the library what an old binary is, since it includes nothing
of this tree and is linked to the names and versions of the last release."""

import os
import subprocess
import xml.etree.ElementTree as ElementTree

import interface
import pytest

CLIENT = interface.FOLDER / "client_0_1.c"
TIMEOUT_S = 60


def released_library(directory):
    """What an old program was linked to: the symbols of the last release, in their versions."""
    symbols = [(symbol.get("name"), symbol.get("version"))
               for symbol in ElementTree.parse(interface.RELEASED).getroot().iter("elf-symbol")]
    source, export_map = directory / "released.c", directory / "released.map"
    source.write_text("".join(f"void {name}(void) {{}}\n" for name, _ in symbols))
    export_map.write_text("".join(
        f"{version} {{ global: {' '.join(f'{name};' for name, of in symbols if of == version)} }};"
        for version in sorted({version for _, version in symbols})))
    library = directory / "released" / interface.SONAME
    library.parent.mkdir()
    subprocess.run(["gcc", "-shared", "-fPIC", source, "-o", library,
                    f"-Wl,-soname,{interface.SONAME}", f"-Wl,--version-script={export_map}"],
                   check=True)
    return library


@pytest.fixture
def run_client(tmp_path):
    """run_client(folder, change): the program, after a change of its text, with the library of a
    folder."""

    def run(folder, change=("", "")):
        text = CLIENT.read_text()
        assert change[0] in text
        program, source = tmp_path / "client", tmp_path / "client.c"
        source.write_text(text.replace(*change) if change[0] else text)
        subprocess.run(["gcc", "-std=c11", "-O1", source, released_library(tmp_path), "-pthread",
                        "-Wl,-z,now", "-o", program], check=True)
        return subprocess.run([program], capture_output=True, text=True, timeout=TIMEOUT_S,
                              env={**os.environ, "LD_LIBRARY_PATH": str(folder)})

    return run


def test_a_program_of_0_1_gets_what_it_got(run_client, library):
    done = run_client(library.parent)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("change", [
    ("uint64_t step, index;\n  const uint32_t", "uint64_t index, step;\n  const uint32_t"),
    ("int32_t schedule, step_source;", "int32_t step_source, schedule;"),
    ("RING = 1, TREE = 2", "RING = 2, TREE = 1"),
    ("BFLOAT16 = 2", "BFLOAT16 = 1"),
    ("SUM = 0, MEAN = 1", "SUM = 1, MEAN = 0"),
    ("REMOTE_ERROR = 42", "REMOTE_ERROR = 43"),
    ("LOG_INFO = 2", "LOG_INFO = 1"),
    ("first_value, hop, weight_a", "hop, first_value, weight_a"),
    ("  const int32_t *node_ids;\n", ""),
    ("unsigned char bytes[256]", "unsigned char bytes[255]"),
], ids=lambda change: change[0].strip())
def test_a_library_that_disagrees_with_it_is_seen(change, run_client, library):
    """A moved field or a new number of the library is to the program what a change of the program
    is to the library."""
    done = run_client(library.parent, change)
    assert done.returncode != 0, done.stdout


@pytest.mark.parametrize(("dropped", "version", "said"), [
    ("gqsgd_comm_refuse", "GQSGD_0", "undefined symbol: gqsgd_comm_refuse"),
    ("", "GQSGD_1", "version `GQSGD_0' not found"),
], ids=["an export is dropped", "the version has another name"])
def test_a_library_without_what_it_needs_is_not_loaded(dropped, version, said, run_client, root,
                                                      tmp_path):
    source, export_map = tmp_path / "broken.c", tmp_path / "broken.map"
    source.write_text("".join(
        f"void {name}(void) {{}}\n" for header in interface.headers(root / "include")
        for name in interface.prototypes(header.read_text()) if name != dropped))
    export_map.write_text(f"{version} {{ global: gqsgd_*; local: *; }};")
    folder = tmp_path / "broken"
    folder.mkdir()
    subprocess.run(["gcc", "-shared", "-fPIC", source, "-o", folder / interface.SONAME,
                    f"-Wl,-soname,{interface.SONAME}", f"-Wl,--version-script={export_map}"],
                   check=True)
    done = run_client(folder)
    assert done.returncode != 0 and said in done.stderr
