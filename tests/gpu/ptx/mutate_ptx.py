"""Writes a copy of compiled kernels with a fault that the tests of tests/gpu/ptx must find.

usage: mutate_ptx.py PTX COPY PATTERN REPLACEMENT

PATTERN is a regular expression, replaced wherever it occurs. It must occur: a mutation that no
longer fits what nvcc writes ends the build instead of testing nothing.
"""

import re
import sys
from pathlib import Path


def main(ptx, copy, pattern, replacement):
    text, count = re.subn(pattern, replacement, Path(ptx).read_text(encoding="ascii"))
    if count == 0:
        sys.exit(f"{ptx} has nowhere the text to mutate: {pattern}")
    Path(copy).write_text(text, encoding="ascii")


if __name__ == "__main__":
    main(*sys.argv[1:])
