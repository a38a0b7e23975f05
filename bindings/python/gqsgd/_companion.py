"""Loads libraries that are built beside libgqsgd, for the parts of this package that need them."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

from . import _abi


def open_companion(file: str, folder: str, variable: str, built: str, mode: int) -> ctypes.CDLL:
    """The library that the environment variable names, alone where it is set; otherwise the file
    beside libgqsgd, or in `folder` of a build; otherwise what the dynamic loader finds.

    Raises ImportError that names every place tried. built: when there is one, in words.
    """
    named = os.environ.get(variable)
    beside = Path(_abi.library_path()).resolve().parent
    files = [beside / file, beside / folder / file]
    found = [str(path) for path in files if path.is_file()]
    name = named or (found + [file])[0]
    try:
        return ctypes.CDLL(name, mode=mode)
    except OSError as error:
        places = ", ".join(map(str, files))
        raise ImportError(
            f"{file.partition('.')[0]} could not be loaded: {error}. {built}; looked at "
            f"{variable} ({named or 'not set'}), {places}, and {file}.",
            name="gqsgd",
            path=name,
        ) from error
