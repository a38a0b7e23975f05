"""tests/support/mutate.py: a copy computes what its source does, but for a mutation that is on."""

import subprocess
import sys

import pytest

SOURCE = """#ifndef A_H
#define A_H
#include <stdint.h>
inline int sum(int a, int b) { return a + b; }
inline int first(int a) { int k = 0; for (; k < a; ++k) {} return k; }
#endif
"""
MAIN = "int main() { return 10 * sum(3, 2) + first(4); }\n"


@pytest.fixture
def mutate(root, tmp_path):
    """mutate(words) -> the process that wrote copy.h from SOURCE."""
    (tmp_path / "a.h").write_text(SOURCE)
    script = root / "tests/support/mutate.py"

    def run(*words):
        command = [sys.executable, script, tmp_path / "a.h", tmp_path / "copy.h", *words]
        return subprocess.run(command, capture_output=True, text=True)

    return run


def test_each_mutation_is_switched_on_by_its_name(mutate, root, tmp_path):
    made = mutate("minus", "a + b", "a - b", "times", "a + b", "a * b",
                  "late", "int k = 0", "int k = MUTATION ? 7 : 0", "never", "k < a", "false")
    assert made.returncode == 0, made.stderr
    (tmp_path / "main.cpp").write_text(MAIN)
    subprocess.run(["g++", "-std=c++20", "-Wall", "-Werror", "-I", root, "-include", "copy.h",
                    "main.cpp", "-o", "main"], cwd=tmp_path, check=True)
    for name, status in {"": 54, "minus": 14, "times": 64, "late": 57, "never": 50}.items():
        done = subprocess.run([tmp_path / "main"], env={"GQ_MUTATION": name})
        assert done.returncode == status, name


@pytest.mark.parametrize("words, said", [
    (["gone", "a / b", "a"], "0 times, not once"),
    (["many", "int a", "int"], "2 times, not once"),
    (["one", "a + b", "a", "two", "return a + b", "return a"], "mutations overlap"),
    (["one", "k < a", "MUTATION", "two", "k < a", "MUTATION"], "share the text"),
])
def test_what_does_not_fit_stops_the_build(mutate, words, said):
    done = mutate(*words)
    assert done.returncode != 0 and said in done.stderr
