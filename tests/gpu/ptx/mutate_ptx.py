"""Writes a copy of compiled kernels with a fault that the tests of tests/gpu/ptx must find.

usage: mutate_ptx.py PTX COPY NAME

NAME is one of MUTATIONS. Its pattern must occur: a mutation that no longer fits what nvcc writes
ends the build instead of testing nothing.
"""

import re
import sys
from pathlib import Path

# The name of each, what it finds in the PTX (a regular expression), and what takes its place.
MUTATIONS = {
    "no_barriers": (r"\n\tbar\.sync[^;]*;", ""),
    "no_warp_barriers": (r"\n\tbar\.warp\.sync[^;]*;", ""),
    "words_out_of_order": (
        r"(st\.global\S*\.v4\.\S+\s*\[[^]]*\], *\{)(%\w+), (%\w+),", r"\1\3, \2,"),
    "the_half_beside": (r"(ld\.global\S*\.[ub]16\s*%\w+, \[%\w+)\]", r"\1+2]"),
    "blocks_of_one_number": (r"%ctaid\.x", "0"),
    "peaks_of_one_thread": (r"redux\.sync\.max\.u32(\s+%r\d+), *(%r\d+),[^;]+;", r"mov.u32\1, \2;"),
    "whole_for_all": (r"ld\.volatile\.global\.u32(\s+%r\d+), \[[^]]*\];", r"mov.u32\1, 0;"),
    "release_is_relaxed": (r"st\.release\.sys\.u64", "st.volatile.global.u64"),
    "no_fence_behind_polls": (r"\n\tfence\.acq_rel\.sys;", ""),
}


def main(ptx, copy, name):
    pattern, replacement = MUTATIONS[name]
    text, count = re.subn(pattern, replacement, Path(ptx).read_text(encoding="ascii"))
    if count == 0:
        sys.exit(f"{ptx} has nowhere the text to mutate: {pattern}")
    Path(copy).write_text(text, encoding="ascii")


if __name__ == "__main__":
    main(*sys.argv[1:])
