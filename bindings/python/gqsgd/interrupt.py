"""Ctrl-C while the library calls Python back (Interrupt), and while a group forms (formed)."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from typing import Protocol, TypeVar


class _Closable(Protocol):
    def close(self) -> None: ...


_Member = TypeVar("_Member", bound=_Closable)


def formed(join: Callable[[], _Member]) -> _Member:
    """What `join` returns, which waits for other ranks. On the main thread Ctrl-C ends that wait at
    once: `join` goes on by itself until its timeout, and what it then returns is closed."""
    if threading.current_thread() is not threading.main_thread():
        return join()  # no KeyboardInterrupt comes here
    lock, ended = threading.Lock(), threading.Event()
    members: list[_Member] = []
    failures: list[BaseException] = []
    is_wanted = True

    def run() -> None:
        try:
            member = join()
            with lock:
                if is_wanted:
                    members.append(member)
                else:
                    member.close()
        except BaseException as error:
            failures.append(error)
        ended.set()

    threading.Thread(target=run, name="gqsgd: joins a group", daemon=True).start()
    try:
        while not ended.wait(0.2):  # a signal that another thread gets does not end a wait
            pass
    except BaseException:
        with lock:
            is_wanted = False
        for member in members:
            member.close()
        raise
    if failures:
        raise failures[0]
    return members[0]


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
