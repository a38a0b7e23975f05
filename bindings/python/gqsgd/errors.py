"""One exception class per status of the library, named after it; no other errors are defined here.

Every class also derives from the built-in exception that a Python programmer would expect. The
docstrings have the state that a failed call leaves behind; "usable" means that the next call works.
"""

from __future__ import annotations

from . import _abi


class GqsgdError(Exception):
    """Base of all errors of the library; itself raised only for a status newer than this package.

    status: the number in gqsgd.h. name: its name, "PEER_LOST" for example.
    The message is the library's sentence: rank, operation, field, both values and a hint.
    """

    status: int
    name: str

    def __init__(self, message: str = "", status: int | None = None):
        super().__init__(message)
        if status is not None:
            self.status, self.name = status, f"STATUS_{status}"


class InvalidArgument(GqsgdError, ValueError):
    """An argument is outside what the call accepts. The communicator is usable, outputs are
    untouched, and the other ranks of a collective get RemoteError."""


class Unsupported(GqsgdError, NotImplementedError):
    """Valid, but not available in this build or on this machine. State as InvalidArgument."""


class BadHandle(GqsgdError, ValueError):
    """The communicator or quantizer is closed, or of another process. Nothing was done."""


class Busy(GqsgdError, RuntimeError):
    """Another thread is inside this communicator; its call is not disturbed."""


class Forked(GqsgdError, RuntimeError):
    """The communicator belongs to the parent of this process, which keeps it unharmed."""


class NoMemory(GqsgdError, MemoryError):
    """Memory could not be allocated. Nothing new was created. Of a collective: all ranks fail; the
    communicator is usable, unless codes had moved already: `Communicator.check` shows it."""


class NoResource(GqsgdError, OSError):
    """A descriptor, thread or name is not available. State as NoMemory."""


class System(GqsgdError, OSError):
    """A system call failed; the sentence has its name and reason. State as NoMemory."""


class Backend(GqsgdError, RuntimeError):
    """A library underneath (CUDA, NCCL, MPI, a custom transport) failed; the communicator is
    broken."""


class Mismatch(GqsgdError, ValueError):
    """The ranks called with different arguments. All ranks get this error, outputs are untouched,
    the communicator is usable."""


class Version(GqsgdError, RuntimeError):
    """The ranks run incompatible versions of the library: no communicator was made, or, over MPI,
    custom transports and NCCL, its first call fails on all ranks."""


class RemoteError(GqsgdError, RuntimeError):
    """Another rank failed and reported it; the sentence has its rank and status. If its own checks
    failed, outputs are untouched and the communicator is usable; it is broken if codes had moved
    already: `Communicator.check` shows it."""


class DuplicateRank(GqsgdError, ValueError):
    """Two processes claimed the same rank; the later one gets this, the others continue."""


class Timeout(GqsgdError, TimeoutError):
    """No progress within the time allowed. The communicator is broken: shrink it or close it."""


class PeerLost(GqsgdError, ConnectionError):
    """A rank has died or gone away. The communicator is broken: shrink it or close it."""


class Aborted(GqsgdError, ConnectionError):
    """The communicator was aborted, here or by another rank. It is broken: close it."""


class Revoked(GqsgdError, ConnectionError):
    """The other ranks gave this communicator up. It is broken: shrink it, unless `shrink` raised
    this, or close it."""


class Protocol(GqsgdError, ConnectionError):
    """A peer sent something that no correct peer sends. The communicator is broken: close it."""


class Integrity(GqsgdError, ConnectionError):
    """What a rank sent was changed on its way, or ranks had different results. The communicator is
    broken on all ranks: close it. Raised by `Communicator.verify` it leaves the communicator
    usable."""

    differing: dict[int, int] = {}  #: of verify: for each rank that differs, how many results


class Nonfinite(GqsgdError, FloatingPointError):
    """An input holds NaN or infinity and the quantizer has nonfinite="error". All ranks get this
    error, outputs are untouched, the communicator is usable."""


class Overflow(GqsgdError, OverflowError):
    """Reserved: not raised by this version; a result that does not fit is infinite."""


class Internal(GqsgdError, RuntimeError):
    """A fault of the library; please report it."""


def _bind() -> dict[int, type[GqsgdError]]:
    """Gives each class its row of the status table; a status without a class fails the import."""
    classes: dict[int, type[GqsgdError]] = {}
    for name, number in _abi.STATUSES.items():
        if name != "OK":
            error: type[GqsgdError] = globals()[name.title().replace("_", "")]
            error.status, error.name = number, name
            classes[number] = error
    return classes


_CLASSES = _bind()


def check(status: int) -> None:
    """Raises the class of `status` with this thread's last error sentence; returns for OK."""
    if status != 0:
        sentence = _abi.library().gqsgd_last_error().decode(errors="replace")
        error = _CLASSES.get(status)
        raise error(sentence) if error else GqsgdError(sentence, status)
