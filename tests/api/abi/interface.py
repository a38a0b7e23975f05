#!/usr/bin/env python3
"""The C ABI as libabigail sees it: the headers compiled with debug information into a library whose
functions do nothing, under the names and versions of src/gqsgd.map. A release build of the library
has no debug information; a definition that differs from its header does not compile, so the types
are those of the library, and test_released.py compares its symbols as well.

    tests/api/abi/interface.py        # at a release: writes the ABI of this tree to released.abi

What a release has is compared from then on with every later tree."""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parents[2]
RELEASED = FOLDER / "released.abi"
SONAME = "libgqsgd.so.0"
_DUMP = ["abidw", "--no-architecture", "--no-corpus-path", "--no-comp-dir-path", "--no-show-locs",
         "--no-elf-needed"]


def headers(include):
    """Of the library; those of MPI are compiled where they are used."""
    return sorted(path for path in include.glob("*.h") if not path.name.startswith("gqsgd_mpi"))


def code_of(text):
    """A header without comments and lines of the preprocessor, macros of several lines included."""
    code = re.sub(r"/\*.*?\*/", " ", text, flags=re.DOTALL)
    return re.sub(r"^#(.*\\\n)*.*$", "", code, flags=re.MULTILINE)


def prototypes(text):
    """{name: declaration without its semicolon} of the functions of a header."""
    found = re.findall(r"^((?!typedef|static)[a-z][\w *]*?\b(gqsgd_\w+)\([^;{}]*\));",
                       code_of(text), flags=re.MULTILINE)
    return {name: " ".join(declaration.split()) for declaration, name in found}


def source(include):
    """The text of a program in C that defines every function."""
    lines = [f"#include <{header.name}>" for header in headers(include)]
    for header in headers(include):
        for declaration in prototypes(header.read_text()).values():
            result = "" if re.match(r"void [^*]", declaration) else " return 0; "
            lines.append(f"{declaration} {{{result}}}")
    return "\n".join(lines) + "\n"


def build(include, directory, export_map=ROOT / "src/gqsgd.map"):
    """The library of the headers in `include`."""
    program, library = directory / "interface.c", directory / SONAME
    program.write_text(source(include))
    subprocess.run(["gcc", "-g", "-shared", "-fPIC", "-I", include, program, "-o", library,
                    f"-Wl,-soname,{SONAME}", f"-Wl,--version-script={export_map}"], check=True)
    return library


def dump(library):
    """Its ABI as XML of libabigail."""
    return subprocess.run([*_DUMP, library], check=True, capture_output=True, text=True).stdout


def main():
    with tempfile.TemporaryDirectory() as directory:
        RELEASED.write_text(dump(build(ROOT / "include", Path(directory))))
    print(f"{RELEASED.relative_to(ROOT)}: {len(RELEASED.read_text().splitlines())} lines")


if __name__ == "__main__":
    sys.exit(main())
