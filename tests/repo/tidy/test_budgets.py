"""Files, lines and functions keep their budgets, and the measures are right."""

from budgets import c_functions, file_violations, function_violations
from source_tree import CODE_SUFFIXES, source_files


def test_files_and_lines_keep_their_budgets():
    assert [v for name, text in source_files(CODE_SUFFIXES).items()
            for v in file_violations(name, text)] == []


def test_functions_keep_their_budget():
    assert [v for name, text in source_files(CODE_SUFFIXES - {".jl"}).items()
            for v in function_violations(name, text)] == []


def test_a_long_file_and_a_wide_line_are_seen():
    assert file_violations("a.h", "int a;\n" * 400) == []
    assert len(file_violations("a.h", "int a;\n" * 401)) == 1
    assert file_violations("a.h", "x" * 100 + "\n") == []
    assert len(file_violations("a.h", "x" * 101 + "\n")) == 1


def c_function(line_count, comment=""):
    body = "  step();\n" * (line_count - 2 - bool(comment))
    return f"namespace gq {{\nvoid walk(int a) {{\n{comment}{body}}}\n}}\n"


def test_a_long_c_function_is_seen():
    assert function_violations("a.cpp", c_function(60)) == []
    assert len(function_violations("a.cpp", c_function(61))) == 1


def test_a_reason_buys_twenty_lines_and_no_more():
    reason = "  // long: one case per status, nothing to share\n"
    assert function_violations("a.cu", c_function(80, reason)) == []
    assert len(function_violations("a.cu", c_function(81, reason))) == 1


def test_a_long_python_function_is_seen():
    def function(line_count):
        return 'def walk():\n    """Text.\n\n    More."""\n' + "    step()\n" * line_count

    assert function_violations("a.py", function(60)) == []
    assert len(function_violations("a.py", function(61))) == 1


def test_c_functions_are_found_with_their_lines():
    text = """\
// A file { with braces ( in comments.
#define OPEN {
extern "C" {
struct Pair { int a = f('{'); };
static const int kTable[] = {
  1, 1'000, g("}"),
};
template <class T, class U = Box<T>>
T twice(T value) { return value + value; }
class Walker : public Base {
 public:
  Walker(int a)
      : a_{a},
        b_{a} {
    if (a) { step(); }
  }
#ifdef FAST
  void run() const {
#else
  void run() const override {
#endif
    for (;;) { auto f = [](int b) { return b; }; }
  }
};
}
"""
    assert [(first, last) for first, last, _ in c_functions(text)] == [(8, 9), (12, 16), (18, 23)]
