"""Libraries that are built beside libgqsgd, for the parts of this package that need them."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import NamedTuple

from . import _abi


class Companion(NamedTuple):
    """One such library, and where it may be."""

    soname: str
    folder: str  #: where a build has it, from libgqsgd on
    variable: str  #: the environment variable that names it outright
    built: str  #: when there is one and how to get it, a sentence without its full stop
    mode: int = ctypes.DEFAULT_MODE

    def path(self) -> str | None:
        """The file that the environment variable names, or the one beside libgqsgd or in a build;
        None where only the dynamic loader may know of one."""
        named = os.environ.get(self.variable)
        if named:
            return named
        pattern = self.soname.partition(".so")[0] + ".so*"  # in a wheel the name has the version
        for folder in self._folders():
            for file in sorted(folder.glob(pattern)):
                if file.is_file():
                    return str(file)
        return None

    def open(self) -> ctypes.CDLL:
        """The library, loaded. Raises ImportError that names every place tried."""
        name = self.path() or self.soname
        try:
            return _abi.load(name, self.mode)
        except OSError as error:
            places = ", ".join(f"{folder}/{self.soname}" for folder in self._folders())
            raise ImportError(
                f"{self.soname.partition('.')[0]} could not be loaded: {error}. {self.built}; "
                f"looked at {self.variable} ({os.environ.get(self.variable) or 'not set'}), "
                f"{places}, and {self.soname}.",
                name="gqsgd",
                path=name,
            ) from error

    def _folders(self) -> list[Path]:
        beside = Path(_abi.library_path()).resolve().parent
        return [beside, beside / self.folder]


# An MPI's plugins want its symbols global.
MPI = Companion(
    "libgqsgd_mpi.so.0",
    "bindings/mpi",
    "GQSGD_MPI_LIBRARY",
    "It is built by pip install . -Csetup-args=-Dmpi=enabled, and by Meson where it finds an MPI "
    "(meson setup B -Dmpi=enabled)",
    ctypes.RTLD_GLOBAL,
)
JAX = Companion(
    "libgqsgd_jax.so", "bindings/jax", "GQSGD_JAX_LIBRARY", "It is built with libgqsgd"
)
