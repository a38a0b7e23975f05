"""Version, build and log of the loaded library."""

from __future__ import annotations

from typing import Any, Callable

from . import _abi

_log_callback: Any = None  # The library holds its address: it must outlive the registration.


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


def set_log(callback: Callable[[str], object] | None) -> None:
    """Sends the library's warnings to `callback(line)`, as in
    `gqsgd.set_log(logging.getLogger("gqsgd").warning)`; None, the default, drops them.

    Process-wide. The callback runs on the thread that called the library and must not call it.
    """
    global _log_callback
    new = _abi.LogCallback(
        0 if callback is None else lambda user, line: callback(line.decode(errors="replace"))
    )
    _abi.library().gqsgd_set_log(new, None)
    _log_callback = new
