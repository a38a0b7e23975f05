"""`python -m gqsgd`: the versions and paths that a report of a problem should have."""

import platform
import sys

import numpy as np

import gqsgd


def main() -> int:
    print(f"package  gqsgd {gqsgd.__version__}, Python {platform.python_version()}, ", end="")
    print(f"NumPy {np.__version__}")
    try:
        print(f"library  {gqsgd.version()} from {gqsgd.library_path()}")
        print(f"build    {gqsgd.build_info()}")
    except ImportError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
