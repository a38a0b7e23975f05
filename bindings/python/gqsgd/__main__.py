"""`python -m gqsgd`: the versions and paths that a report of a problem should have."""

import os
import platform
import sys
from importlib import metadata

import gqsgd
from gqsgd._companion import JAX, MPI, Companion


def main() -> int:
    print(f"package   gqsgd {gqsgd.__version__}, Python {platform.python_version()}, ", end="")
    print(_version_of("NumPy"))
    try:
        print(f"library   {gqsgd.version()} from {gqsgd.library_path()}")
        print(f"build     {gqsgd.build_info()}")
    except ImportError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"devices   CPU, {len(os.sched_getaffinity(0))} processors; CUDA for stages, if built")
    print("backends  threads, processes of this machine, custom transports")
    print(f"  MPI     {_place_of(MPI)}")
    print(f"bindings  {_version_of('PyTorch', 'torch')}")
    print(f"          {_version_of('JAX')}: {_place_of(JAX)}")
    return 0


def _version_of(name: str, distribution: str = "") -> str:
    """What is installed, without importing it."""
    try:
        return f"{name} {metadata.version(distribution or name)}"
    except metadata.PackageNotFoundError:
        return f"{name} not installed"


def _place_of(companion: Companion) -> str:
    return companion.path() or f"no {companion.soname} found"


if __name__ == "__main__":
    sys.exit(main())
