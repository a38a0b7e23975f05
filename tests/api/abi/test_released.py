"""The ABI against that of the last release (released.abi): nothing is removed, renumbered or moved.

Exports and enumerators that are added are no difference. A field that is added at the end of a
struct with a size is one: libabigail 2.2 can be told to ignore it, but ignores then every change of
that struct. Such a change is made with a new released.abi, which a reviewer sees. interface.py says
what is compared, and writes the file."""

import re
import shutil
import subprocess
import xml.etree.ElementTree as ElementTree

import interface
import pytest
from test_exports import exported


def difference(library):
    """abidiff of the release and a library. Both are dumps: those name no processor."""
    now = library.with_suffix(".abi")
    now.write_text(interface.dump(library))
    return subprocess.run(["abidiff", "--no-added-syms", interface.RELEASED, now],
                          capture_output=True, text=True)


@pytest.fixture
def compare(tmp_path, root):
    """compare(changes): what abidiff says of this tree's ABI after each (header, old, new)."""
    if not shutil.which("abidiff"):
        pytest.fail("no abidiff found; Debian's package is abigail-tools")

    def run(*changes):
        include = tmp_path / "include"
        shutil.copytree(root / "include", include)
        for header, old, new in changes:
            text = (include / header).read_text()
            assert text.count(old) == 1, f"{header} has {text.count(old)} of {old!r}"
            (include / header).write_text(text.replace(old, new))
        return difference(interface.build(include, tmp_path))

    return run


def test_this_tree_has_the_abi_of_the_last_release(compare):
    compared = compare()
    assert compared.returncode == 0, compared.stdout + compared.stderr


def test_the_library_exports_every_symbol_of_the_last_release_in_its_version(library):
    symbols = ElementTree.parse(interface.RELEASED).getroot().iter("elf-symbol")
    released = {symbol.get("name"): symbol.get("version") for symbol in symbols}
    assert len(released) > 50
    now = exported(library)
    assert {name: now.get(name) for name in released} == released


CONFIG_FIELDS = """  uint64_t step;               /**< GIVEN: below 2^32 */
  uint64_t index;              /**< GIVEN: call within the step, below 2^16 */
"""
MUTATIONS = {
    "a field is moved": ("gqsgd.h", CONFIG_FIELDS,
                         "  uint64_t index;\n  uint64_t step;\n"),
    "a field has another size": ("gqsgd.h", CONFIG_FIELDS, "  uint32_t step, index;\n"),
    "a field is removed": ("gqsgd_stages.h", "  uint64_t weight_b;", "  "),
    "a field is added to a struct without a size": (
        "gqsgd_stages.h", "  uint64_t weight_b;", "  uint64_t weight_b, more;"),
    "a field is added to a struct with a size": (
        "gqsgd.h", "(docs/CUDA.md) */\n} gqsgd_config;", "*/\n  int64_t more;\n} gqsgd_config;"),
    "an enumerator is renumbered": ("gqsgd.h", "GQSGD_BFLOAT16 = 2", "GQSGD_BFLOAT16 = 5"),
    "an export is dropped": (
        "gqsgd.h", "gqsgd_status gqsgd_comm_abort(gqsgd_comm comm);", ""),
    "an export has another type of parameter": (
        "gqsgd.h", "gqsgd_comm_set_timeout(gqsgd_comm comm, int64_t timeout_ms);",
        "gqsgd_comm_set_timeout(gqsgd_comm comm, int32_t timeout_ms);"),
    "an export has one parameter more": (
        "gqsgd.h", "gqsgd_comm_abort(gqsgd_comm comm);",
        "gqsgd_comm_abort(gqsgd_comm comm, int32_t reason);"),
    "a callback has another type of parameter": (
        "gqsgd_transport.h", "(*progress)(void *user, int32_t timeout_us)",
        "(*progress)(void *user, int64_t timeout_us)"),
}


@pytest.mark.parametrize("change", MUTATIONS.values(), ids=MUTATIONS)
def test_a_change_that_breaks_old_programs_is_seen(change, compare):
    compared = compare(change)
    # Bit 1 is a failure of abidiff itself, bit 4 (value 4) a difference.
    assert compared.returncode & 1 == 0, compared.stderr
    assert compared.returncode & 4, compared.stdout


@pytest.mark.parametrize("change", [
    ("gqsgd.h", "gqsgd_status gqsgd_comm_abort(gqsgd_comm comm);",
     "gqsgd_status gqsgd_comm_abort(gqsgd_comm comm);\ngqsgd_status gqsgd_new(gqsgd_comm comm);"),
    ("gqsgd.h", "GQSGD_SCHEDULE_SPARSE = 7,", "GQSGD_SCHEDULE_SPARSE = 7, GQSGD_NEW = 8,"),
], ids=["an export", "an enumerator"])
def test_what_a_release_may_add_is_no_difference(change, compare):
    compared = compare(change)
    assert compared.returncode == 0, compared.stdout + compared.stderr


def test_another_symbol_version_is_seen(tmp_path, root):
    """The loader refuses a program that needs GQSGD_0 if the library has GQSGD_1 alone."""
    export_map = tmp_path / "renamed.map"
    export_map.write_text((root / "src/gqsgd.map").read_text().replace("GQSGD_0", "GQSGD_1"))
    library = interface.build(root / "include", tmp_path, export_map)
    compared = difference(library)
    assert compared.returncode & 4 and re.search(r"[1-9]\d* Removed", compared.stdout)
