"""Every header compiles alone, as every language that includes it; structs keep their layout."""

import shutil
import subprocess

import pytest

HEADERS = ["gqsgd.h", "gqsgd_segments.h", "gqsgd_transport.h", "gqsgd_nccl.h"]
STRICT = ["-Wall", "-Wextra", "-pedantic", "-Werror", "-fsyntax-only"]


@pytest.fixture
def clang():
    """A clang, plain or with a version in its name."""
    for name in ["clang", *(f"clang-{version}" for version in range(25, 13, -1))]:
        if shutil.which(name):
            return name
    return pytest.fail("no clang found; Debian's package is clang")


def compile_text(compiler, language, text, root):
    return subprocess.run(
        [*compiler, *STRICT, "-I", root / "include", "-x", language, "-"],
        input=text, capture_output=True, text=True)


@pytest.mark.parametrize("header", HEADERS)
@pytest.mark.parametrize("compiler, language", [
    (["gcc", "-std=c99", "-Wstrict-prototypes"], "c"),
    (["g++", "-std=c++11"], "c++"),
    (["g++", "-std=c++20"], "c++"),
])
def test_header_compiles_alone_with_gcc(compiler, language, header, root):
    result = compile_text(compiler, language, f"#include <{header}>\n", root)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("header", HEADERS)
@pytest.mark.parametrize("standard, language", [("c99", "c"), ("c11", "c"), ("c++20", "c++")])
def test_header_compiles_alone_with_clang(standard, language, header, clang, root):
    result = compile_text([clang, f"-std={standard}"], language, f"#include <{header}>\n", root)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("headers", [
    ["gqsgd.h"], ["gqsgd_segments.h"], ["gqsgd_segments.h", "gqsgd.h"],
])
def test_lists_come_with_gqsgd_h_in_any_order(headers, root):
    text = "".join(f"#include <{header}>\n" for header in headers)
    text += "void *const sizes[sizeof(&gqsgd_allgather) + sizeof(&gqsgd_request_wait)] = {0};\n"
    result = compile_text(["gcc", "-std=c99"], "c", text, root)
    assert result.returncode == 0, result.stderr


def test_layout_and_status_numbers_are_frozen(root):
    text = (root / "tests/api/abi/layout.c").read_text()
    result = compile_text(["gcc", "-std=c11"], "c", text, root)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("wrong, right", [
    ("offsetof(gqsgd_site, weight_b) == 64", "offsetof(gqsgd_site, weight_b) == 56"),
    ("GQSGD_PEER_LOST == 61", "GQSGD_PEER_LOST == 62"),
])
def test_a_moved_field_or_number_is_seen(wrong, right, root):
    text = (root / "tests/api/abi/layout.c").read_text()
    assert wrong in text
    assert compile_text(["gcc", "-std=c11"], "c", text.replace(wrong, right), root).returncode != 0


def test_the_strict_compilers_refuse_what_is_not_c99(root):
    text = "#include <gqsgd.h>\nint f(void) { return 0b1; }\n"
    assert compile_text(["gcc", "-std=c99"], "c", text, root).returncode != 0
