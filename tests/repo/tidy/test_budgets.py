"""Files, lines and functions keep their budgets, and the measures are right."""

from budgets import (c_classes, c_functions, class_violations, file_violations, folder_violations,
                     function_violations)
from source_tree import C_SUFFIXES, CODE_SUFFIXES, source_files


def test_files_and_lines_keep_their_budgets():
    assert [v for name, text in source_files(CODE_SUFFIXES).items()
            for v in file_violations(name, text)] == []


def test_functions_keep_their_budget():
    assert [v for name, text in source_files(CODE_SUFFIXES - {".jl"}).items()
            for v in function_violations(name, text)] == []


def test_classes_keep_their_budget():
    assert [v for name, text in source_files(C_SUFFIXES).items()
            for v in class_violations(name, text)] == []


def test_folders_keep_their_budget():
    assert folder_violations(source_files(CODE_SUFFIXES)) == []


def test_a_long_file_and_a_wide_line_are_seen():
    assert file_violations("a.h", "int a;\n" * 1000) == []
    assert len(file_violations("a.h", "int a;\n" * 1001)) == 1
    assert file_violations("a.h", "x" * 100 + "\n") == []
    assert len(file_violations("a.h", "x" * 101 + "\n")) == 1


def c_class(public_count, private_count):
    public = "".join(f"  void show{k}() const {{ step(); }}\n" for k in range(public_count))
    private = "".join(f"  static int hide{k}(int a);\n" for k in range(private_count))
    return f"class Walker {{\n public:\n{public} private:\n{private}  int a_ = f(1);\n}};\n"


def test_a_class_with_many_methods_is_seen():
    assert class_violations("a.h", c_class(20, 20)) == []
    assert len(class_violations("a.h", c_class(21, 0))) == 1
    assert len(class_violations("a.h", c_class(20, 21))) == 1


def test_a_full_folder_is_seen():
    assert folder_violations([f"src/a/{k}.cpp" for k in range(25)]) == []
    assert len(folder_violations([f"src/a/{k}.cpp" for k in range(26)])) == 1


def test_methods_are_told_from_members():
    text = """\
class [[nodiscard]] Walker final : public Base<int> {
 public:
  Walker() = default;
  Walker(const Walker&) = delete;
  explicit Walker(int a) : a_{a}, b_(a) {}
  Walker& operator=(int a);
  [[gnu::format(printf, 2, 3)]] void say(const char* format, ...);
  template <typename Step> void all(Step step) { if (step()) { a_ = 1; } }
  virtual bool ends() const = 0;
 private:
  friend void other(Walker* walker);
  using Stage = int (Walker::*)(int);
  enum class Way { left, right };
  struct Place { int a = 0; int size() const { return a; } };
  static_assert(sizeof(int) == 4);
  int hidden();
  int (*callback_)(void* user) = nullptr;
  std::function<void(int)> function_;
  alignas(64) std::atomic<int> count_{0};
  int a_ = f(1);
};
"""
    assert [(name, methods) for _, name, methods in c_classes(text)] == [
        ("Walker", ["public"] * 4 + ["private"]), ("Place", ["public"])]


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
