"""The UCX of this process: which file that is. The library opens it, with settings that keep UCX
from changing the process; here it is only found, as pip puts it where no dynamic loader looks."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import re
from pathlib import Path
from typing import Any, NamedTuple

from .. import _abi
from ..errors import Unsupported

SONAME = "libucp.so.0"
VARIABLE = "GQSGD_UCX_LIBRARY"
HINT = "`pip install libucx-cu12` or `apt-get install libucx0` adds it"

_OLDEST, _END = (1, 13), (2,)  # versions that the library takes: from .. to below ..
_PACKAGE = "libucx"  # what pip's libucx-cu12 and libucx-cu13 are imported as
_MAPS = Path("/proc/self/maps")  # the files that this process has mapped, libraries among them
_LOADED = re.compile(r"/.*/libucp\.so[.0-9]*$")


class Ucx(NamedTuple):
    """A UCX that could be loaded."""

    path: str
    version: str

    def __str__(self) -> str:
        return f"UCX {self.version} ({self.path})"


def with_path(options: dict[str, Any]) -> dict[str, Any]:
    """`options` of a communicator with pip's UCX, where neither they nor GQSGD_UCX_LIBRARY name one
    and this process has loaded none: two do not work in one process."""
    if "ucx" in options or loaded() or os.environ.get(VARIABLE):
        return options
    path = _of_pip()
    return options if path is None else {**options, "ucx": path}


def loaded() -> str | None:
    """The libucp that is part of this process already, brought by an MPI for example."""
    try:
        lines = _MAPS.read_text().splitlines()
    except OSError:
        return None
    return next((found.group() for line in lines if (found := _LOADED.search(line))), None)


def report() -> Ucx:
    """What a communicator would use. Loads it without the library's settings: for a process that
    ends soon. Raises Unsupported with the reason and how to get one."""
    name = loaded() or os.environ.get(VARIABLE) or _of_pip() or SONAME
    try:
        library = _abi.load(name)
        version = library.ucp_get_version_string
    except (OSError, AttributeError) as error:
        raise Unsupported(f"UCX could not be loaded: {error}; hint: {HINT}") from error
    version.restype = ctypes.c_char_p
    found = Ucx(name if "/" in name else loaded() or name, version().decode())
    if not _OLDEST <= _numbers(found.version) < _END:
        raise Unsupported(f"{found} is not of a version from 1.13 to below 2; hint: {HINT}")
    return found


def _numbers(version: str) -> tuple[int, ...]:
    """Of "1.13.1": comparable; () for what is no version."""
    return tuple(int(number) for number in re.findall(r"\d+", version))


def _of_pip() -> str | None:
    """The file of pip's package, which is not imported for that."""
    spec = importlib.util.find_spec(_PACKAGE)
    folders = [] if spec is None else spec.submodule_search_locations or []
    files = [Path(folder) / "lib" / SONAME for folder in folders]
    return next((str(file) for file in files if file.is_file()), None)
