"""A warning for states whose hook was never called: some frameworks drop hooks without a word."""

from __future__ import annotations

import os
import sys
import warnings
import weakref


class UnusedWarning:
    """Warns once, when `owner` ends, unless it was `used`: closed, dropped, or at the end of the
    program. Never in a child after fork, and not where an exception ends the training."""

    def __init__(self, owner: object, text: str):
        self._text, self._process = text, os.getpid()
        self._is_due = True
        weakref.finalize(owner, self.end)

    def used(self) -> None:
        self._is_due = False

    def end(self) -> None:
        is_due, self._is_due = self._is_due, False
        # The second is what the interpreter keeps of an exception that ended the program.
        failing = sys.exc_info()[1] is not None or getattr(sys, "last_value", None) is not None
        if is_due and not failing and os.getpid() == self._process:
            warnings.warn(self._text, RuntimeWarning, stacklevel=2)
