"""tools/fuzz knows every target of tests/fuzz, and each has a mutation that it must find."""

import re
import subprocess

import pytest


def listed_targets(root):
    """And the source that each has a mutation of."""
    text = (root / "tests/fuzz/meson.build").read_text()
    library = re.findall(r"^  '(\w+)': \['(src/[\w/]+\.cpp)'", text, re.MULTILINE)
    stages = re.findall(r"^executable\('fuzz_mutated_(\w+)', '\w+\.cpp', '\.\./\.\./"
                        r"([\w/]+\.cpp)'", text, re.MULTILINE)
    return dict(library + stages)


def test_every_target_is_built_and_has_a_mutation_of_the_library(root):
    files = {path.stem for path in (root / "tests/fuzz").glob("*.cpp")}
    listed = listed_targets(root)
    assert files == set(listed)
    assert all((root / source).is_file() for source in listed.values())


def test_a_corpus_is_small_and_of_a_target(root):
    corpora = [path for path in (root / "tests/fuzz/corpus").rglob("*") if path.is_file()]
    assert {path.parent.name for path in corpora} <= set(listed_targets(root))
    assert sum(path.stat().st_size for path in corpora) < 64 << 10


@pytest.mark.parametrize("arguments, sentence", [
    (["--target", "nothing"], "there is no tests/fuzz/nothing.cpp"),
    (["--seconds", "soon"], "--seconds soon is not a number of seconds"),
    (["--fast"], "unknown option '--fast'"),
])
def test_a_wrong_argument_is_named_before_anything_is_built(root, arguments, sentence):
    run = subprocess.run([root / "tools/fuzz", *arguments], capture_output=True, text=True)
    assert run.returncode == 1
    assert sentence in run.stderr
