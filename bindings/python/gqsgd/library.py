"""Version, build and file of the loaded library."""

from __future__ import annotations

from . import _abi


def version() -> str:
    """Version of the library in use, "0.1.0" for example."""
    number: int = _abi.library().gqsgd_version()
    return f"{number // 10000}.{number // 100 % 100}.{number % 100}"


def build_info() -> str:
    """One line: version, wire version, compiler, instruction set in use, backends."""
    text: bytes = _abi.library().gqsgd_build_info()
    return text.decode()


def library_path() -> str:
    """The file that the library was loaded from."""
    return _abi.library_path()
