"""Manners of the library's code, and of every file."""

import pytest
from library_code import (
    bad_bytes, cut_strings, forbidden_calls, types_of_two_headers, without_opening_comment)
from source_tree import C_SUFFIXES, CODE_SUFFIXES, source_files


def library_files():
    return {name: text for name, text in source_files(C_SUFFIXES).items()
            if name.startswith(("src/", "kernels/"))}


def violations(check, files):
    return [v for name, text in files.items() for v in check(name, text)]


def test_the_library_prints_nothing_and_ends_nobodys_program():
    assert violations(forbidden_calls, library_files()) == []


def test_strings_of_a_caller_are_escaped():
    assert violations(cut_strings, library_files()) == []


def test_a_string_that_printf_cuts_is_seen():
    assert len(cut_strings("a.cpp", 'fail(code, "%.*s, %.40s, %-8.3s", 3, a, b, c);\n')) == 3
    assert cut_strings("a.cpp", 'fail(code, "%s, %9s, %.3f", a, b, c);\n') == []


def test_every_library_file_opens_with_a_comment():
    assert violations(without_opening_comment, library_files()) == []


def test_a_type_is_defined_in_one_header():
    headers = {name: text for name, text in library_files().items() if name.endswith(".h")}
    assert types_of_two_headers(headers) == []


def test_a_type_of_two_headers_is_seen():
    one, other = "struct Place {\n  int x;\n};\n", "class alignas(8) Place final : public A {\n};\n"
    assert types_of_two_headers({"a.h": one, "b.h": other}) == ["Place: defined in a.h and b.h"]
    harmless = {"a.h": one, "b.h": "struct Place;\nvoid f(struct Place);\n// struct Place {\n"}
    assert types_of_two_headers(harmless) == []


def test_code_is_ascii_with_a_last_newline():
    assert violations(bad_bytes, source_files(CODE_SUFFIXES)) == []


@pytest.mark.parametrize("line", [
    'printf("%d", 1);', 'if (bad) fprintf(stderr, "x");', "std::cout << 1;", "exit(1);",
    "else abort();", "return (abort(), 1);", "std::abort();", "::exit(3);", "assert(a == b);",
    "std::terminate ();", "cudaDeviceSynchronize();", "  x = ok ? 1 : rand();", "std::cerr << x;",
])
def test_a_forbidden_call_is_seen(line):
    assert len(forbidden_calls("src/a.cpp", f"void f() {{\n{line}\n}}\n")) == 1


@pytest.mark.parametrize("line", [
    'snprintf(text, size, "x");', "static_assert(sizeof(int) == 4);", "transport.abort();",
    "peer->abort(3);", "Status abort(int rank);", "// printf(1)", 'f("abort()");',
    "gqsgd_comm_abort(comm);", "on_exit(1);", "Group::abort();",
])
def test_a_harmless_line_passes(line):
    assert forbidden_calls("src/a.cpp", f"void f() {{\n{line}\n}}\n") == []


def test_a_missing_opening_comment_is_seen():
    assert without_opening_comment("a.h", "// What lives here.\n#pragma once\n") == []
    assert without_opening_comment("a.h", "/* What lives here. */\n") == []
    assert len(without_opening_comment("a.h", "#pragma once\n// Too late.\n")) == 1
    assert len(without_opening_comment("a.h", "//\n#pragma once\n")) == 1


def test_bad_bytes_are_seen():
    assert bad_bytes("a.h", "int a;\n") == []
    assert len(bad_bytes("a.h", "int a;")) == 1
    assert len(bad_bytes("a.h", "int a; \n")) == 1
    assert len(bad_bytes("a.h", "\tint a;\n")) == 1
    assert len(bad_bytes("a.h", "// \u00fc\n")) == 1
    assert len(bad_bytes("a.h", "int a;\r\n")) == 2  # foreign letter, blank at the end
