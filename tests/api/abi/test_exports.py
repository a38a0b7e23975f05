"""The library exports what its headers declare, nothing else, all under one version."""

import re
import subprocess

import interface


def exported(library):
    """{symbol: version} of everything that the library defines for others."""
    listing = subprocess.run(["nm", "-D", "--defined-only", "--with-symbol-versions", library],
                             check=True, capture_output=True, text=True).stdout
    names = [line.split()[-1] for line in listing.splitlines() if line.split()[-2] != "A"]
    return dict(re.split("@+", name + "@none", maxsplit=2)[:2] for name in names)


def listed(root):
    return (root / "tests/api/abi/exports.txt").read_text().split()


def test_exports_are_the_checked_in_list(library, root):
    assert sorted(exported(library)) == listed(root)


def test_every_export_carries_the_version(library):
    assert set(exported(library).values()) == {"GQSGD_0"}


def test_the_list_is_sorted_and_what_the_headers_declare(root):
    assert listed(root) == sorted(name for header in interface.headers(root / "include")
                                  for name in interface.prototypes(header.read_text()))


def test_the_changelog_has_every_export(root):
    """CHANGELOG.md lists the C ABI of the next release line by line, in code marks."""
    text = (root / "CHANGELOG.md").read_text()
    released = text.index("## Unreleased")
    assert set(re.findall(r"`(gqsgd_\w+)\(", text[released:])) == set(listed(root))


def test_a_leaked_or_missing_symbol_is_seen(tmp_path):
    source, object_path = tmp_path / "leak.c", tmp_path / "leak.so"
    source.write_text("int gqsgd_version(void) { return 0; }\nint leaked(void) { return 0; }\n")
    subprocess.run(["gcc", "-shared", "-fPIC", source, "-o", object_path], check=True)
    assert exported(object_path) == {"gqsgd_version": "none", "leaked": "none"}


def test_declarations_are_found():
    text = """/* int gqsgd_not(void); */
#define GQSGD_MACRO(x) \\
  gqsgd_not(x)
typedef void (*gqsgd_callback)(void *user);
typedef struct {
  int32_t (*send)(void *user);
} gqsgd_table;
static inline int gqsgd_inline(void) { return 0; }
const char *gqsgd_a(int b);
gqsgd_status gqsgd_b(gqsgd_comm comm,
                     int c);
"""
    assert interface.prototypes(text) == {
        "gqsgd_a": "const char *gqsgd_a(int b)",
        "gqsgd_b": "gqsgd_status gqsgd_b(gqsgd_comm comm, int c)"}
