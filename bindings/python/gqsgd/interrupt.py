"""Interrupt: Ctrl-C while the library calls Python back."""

from __future__ import annotations

import signal
import threading


class Interrupt:
    """A context for one call, in which Ctrl-C waits.

    KeyboardInterrupt comes wherever Python code is about to run: also at the entry of a callback,
    where ctypes can only print it, and the library takes for done what was not begun. So in here it
    is noted, `look` raises it where a callback catches it, and the end of the call raises it for
    good. A handler of SIGINT that is not Python's own is left alone.
    """

    def __init__(self) -> None:
        self._noted = self._waits = False

    def look(self) -> None:
        """Raises KeyboardInterrupt if there was one."""
        if self._noted:
            raise KeyboardInterrupt

    def __enter__(self) -> Interrupt:
        self._waits = (
            threading.current_thread() is threading.main_thread()
            and signal.getsignal(signal.SIGINT) is signal.default_int_handler
        )
        if self._waits:
            signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._waits:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        if kind is not KeyboardInterrupt:
            self.look()

    def _note(self, *_: object) -> None:
        self._noted = True
