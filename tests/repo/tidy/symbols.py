"""Weak symbols in the objects that are built once per instruction set.

A weak copy of a function compiled for AVX-512 may be the one the linker keeps for every caller: the
program then dies on a machine without it. So these objects may define none at all.
"""

import subprocess

_WEAK_DEFINITIONS = "VWu"  # nm's letters: weak object, weak function, unique object


def weak_definitions(object_path):
    """Names of the weak or unique symbols that an object file defines."""
    listing = subprocess.run(["nm", "--defined-only", "-C", str(object_path)], check=True,
                             capture_output=True, text=True).stdout
    fields = [line.split(maxsplit=2) for line in listing.splitlines()]
    # DW.ref.* is a pointer for exception tables: data, the same for every instruction set.
    return [name for _, letter, name in fields
            if letter in _WEAK_DEFINITIONS and not name.startswith("DW.ref.")]
