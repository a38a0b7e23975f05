"""`python -m gqsgd`: versions and paths for a report of a problem; which parts are here, and how to
get the optional ones that are not."""

import os
import platform
import sys
from importlib import metadata

import gqsgd
from gqsgd._companion import JAX, MPI
from gqsgd.network import ucx

_PIP = "pip install . -Csetup-args="  # in the source tree


def main() -> int:
    numpy = _version_of("numpy") or "(version unknown)"
    print(f"package   gqsgd {gqsgd.__version__}, Python {platform.python_version()}, NumPy {numpy}")
    try:
        print(f"library   {gqsgd.version()} from {gqsgd.library_path()}")
        print(f"build     {gqsgd.build_info()}")
    except ImportError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"machine   {len(os.sched_getaffinity(0))} processors for this process")
    present = ["threads, processes of this machine, transports of your own"]
    absent = []
    for found, text in (_torch(), _jax(), _ucx_found(), _mpi(), _cuda()):
        (present if found else absent).append(text)
    _print_list("present", present)
    _print_list("optional", absent)
    return 0


def _print_list(title: str, lines: list[str]) -> None:
    for number, line in enumerate(lines):
        print(f"{title if number == 0 else '':<10}{line}")


def _torch() -> tuple[bool, str]:
    version = _version_of("torch")
    if version:
        return True, f"PyTorch {version}, for gqsgd.torch"
    return False, "PyTorch, for gqsgd.torch: not installed; `pip install torch` adds it"


def _jax() -> tuple[bool, str]:
    version, path = _version_of("jax"), JAX.path()
    if not version:
        return False, "JAX, for gqsgd.jax: not installed; `pip install jax` adds it"
    if not path:
        return False, (
            f"gqsgd.jax: JAX {version} is installed, {JAX.soname} is not beside the library, with "
            f"which it is built; {JAX.variable} may name it"
        )
    return True, f"JAX {version}, for gqsgd.jax: {path}"


def _ucx_found() -> tuple[bool, str]:
    try:
        found = ucx.report()
    except gqsgd.Unsupported as error:
        return False, f"ranks on several machines: {error}"
    return True, f"ranks on several machines: {found}"


def _mpi() -> tuple[bool, str]:
    path = MPI.path()
    if path:
        return True, f"MPI: {path}"
    return False, f"MPI: not in this build; `{_PIP}-Dmpi=enabled` adds it"


def _cuda() -> tuple[bool, str]:
    """Whether the library was built for GPUs; whether this machine has one, gqsgd-info says."""
    if ", no cuda" in gqsgd.build_info():
        return False, f"CUDA and NCCL: not in this build; `{_PIP}-Dcuda=enabled` adds them"
    return True, "CUDA; NCCL where the machine has it"


def _version_of(distribution: str) -> str:
    """What is installed, without importing it; "" where it is not."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return ""


if __name__ == "__main__":
    sys.exit(main())
