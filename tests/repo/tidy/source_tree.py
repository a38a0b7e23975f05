"""The tree as the tidy checks see it: its files, and their code without comments or strings."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
C_SUFFIXES = {".c", ".h", ".cpp", ".hpp", ".cu", ".cuh", ".inl"}
CODE_SUFFIXES = C_SUFFIXES | {".py", ".jl"}

# Answers made by reference/ and build folders are not written by hand.
_SKIPPED_TOP = re.compile(r"^(\.|build|venv)")
_SKIPPED_PATHS = ("tests/vectors/",)


def source_files(suffixes):
    """{path relative to the root: text} of every file of these kinds, generated ones left out."""
    found = {}
    built = tuple(f"{folder.parent.name}/" for folder in ROOT.glob("*/meson-private"))
    for path in sorted(ROOT.rglob("*")):
        name = path.relative_to(ROOT).as_posix()
        if path.suffix not in suffixes or _SKIPPED_TOP.match(name) or not path.is_file():
            continue
        if name.startswith(_SKIPPED_PATHS + built):
            continue
        text = path.read_text(encoding="utf-8")
        if "generated" not in text.partition("\n")[0]:
            found[name] = text
    assert found, f"no {sorted(suffixes)} under {ROOT}: the check would pass without looking"
    return found


_NOT_CODE = re.compile(
    r"""  //[^\n]*
        | /\*.*?\*/
        | R"(?P<mark>[^(\s]*)\(.*?\)(?P=mark)"
        | "(?:\\.|[^"\\\n])*"
        | (?<![0-9A-Za-z_])'(?:\\.|[^'\\\n])+'   # not the separator in 1'000
    """, re.DOTALL | re.VERBOSE)


def code_only(text):
    """C or C++ with comments, strings and characters as blanks; every line keeps its number."""
    return _NOT_CODE.sub(lambda found: re.sub(r"[^\n]", " ", found.group()), text)
