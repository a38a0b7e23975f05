"""The log of the library: to a function, or to `logging.getLogger("gqsgd")`.

Nothing is installed by importing. The first communicator sends the library's lines to the logger if
that is enabled for INFO then; a program that sets up logging later calls `log_to_logging`. With
GQSGD_LOG=warn, info or trace in the environment lines go to standard error instead, unless the
program calls one of these functions.
"""

from __future__ import annotations

import atexit
import logging
import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from . import _abi
from .arguments import number_of
from .interrupt import Interrupt

_LOGGER = logging.getLogger("gqsgd")
_LOGGING_LEVELS = {
    _abi.LOG_LEVELS["warn"]: logging.WARNING,
    _abi.LOG_LEVELS["info"]: logging.INFO,
    _abi.LOG_LEVELS["trace"]: logging.DEBUG,
}

_NO_CALLBACK = nullcontext()
_callback: Any = None  # the library has its address: it must outlive the registration
_is_chosen = False  # where lines go: by the program, or by the first communicator


def set_log(callback: Callable[[int, str], object] | None, level: str = "info") -> None:
    """Sends the library's lines up to `level` ("warn", "info" or "trace") to
    `callback(number, line)`, number being that of logging: WARNING, INFO or DEBUG. None restores
    the default: standard error with GQSGD_LOG=warn, info or trace in the environment, else nowhere.

    For the whole process. The callback runs on the thread that logs, which may be one of the
    library's, and must not call the library. What it raises is printed and goes no further. At the
    end of the interpreter the default is restored.
    """
    global _callback, _is_chosen
    number = number_of("level", level, _abi.LOG_LEVELS)
    if callback is not None and not callable(callback):
        raise TypeError(f"callback is a {type(callback).__name__}, not a function (number, line)")
    new = _abi.LogCallback(
        0
        if callback is None
        else lambda _, kind, line: callback(
            _LOGGING_LEVELS.get(kind, logging.DEBUG), line.decode(errors="replace")
        )
    )
    if _callback is None:
        atexit.register(_restore)  # threads of the library may log when Python is gone
    # Without Python's lock, as every call by ctypes: it waits for a line that is under way.
    _abi.library().gqsgd_set_log(number, new, None)
    _callback, _is_chosen = new, True


def log_to_logging(level: str | None = None) -> None:
    """Sends the library's lines to `logging.getLogger("gqsgd")`, warnings as WARNING, a line per
    communicator and kind of call as INFO, a line per call as DEBUG.

    level: "warn", "info" or "trace"; by default what the logger is enabled for now.
    """
    set_log(_LOGGER.log, _enabled_level() if level is None else level)


def attach_logger() -> None:
    """Before the first communicator of the process: `log_to_logging` if the logger is enabled for
    INFO, unless the program or the environment has chosen."""
    global _is_chosen
    if _is_chosen:
        return
    _is_chosen = True
    if not os.environ.get("GQSGD_LOG") and _LOGGER.isEnabledFor(logging.INFO):
        log_to_logging()


def interruptible() -> AbstractContextManager[Any]:
    """The context of a call of the library that may log: a KeyboardInterrupt at the entry of the
    callback would be lost."""
    return Interrupt() if _callback else _NO_CALLBACK


def _enabled_level() -> str:
    """The level that has all lines which the logger does not drop."""
    for level in ("trace", "info", "warn"):
        if _LOGGER.isEnabledFor(_LOGGING_LEVELS[_abi.LOG_LEVELS[level]]):
            return level
    return "none"


def _restore() -> None:
    _abi.library().gqsgd_set_log(_abi.LOG_LEVELS["none"], _abi.LogCallback(0), None)
