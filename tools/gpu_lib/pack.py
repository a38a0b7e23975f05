"""One file for a machine that has a driver and Python but no compiler, Meson, pytest or network."""

import sys
import tarfile
from importlib.util import find_spec
from pathlib import Path

from .driver import COMPILERS

FOLDER = "gqsgd_check"  # what an archive unpacks to
LIMIT_BYTES = 60 * 2**20
SOURCES = ("tools/gpu_check", "tools/gpu_lib", "bindings/python/gqsgd", "tests/bindings/gpu")
#: Pure Python; what this Python does not have is not needed by its pytest.
PYTEST = ("pytest", "_pytest", "pluggy", "iniconfig", "packaging", "pygments", "exceptiongroup",
          "tomli")


def write_pack(file, root, build, targets, source):
    """Writes programs of a build, the Python package, the check and pytest; "" or what is wrong. An
    archive that is too large is removed."""
    absent = [target for target in targets if not (build / target).is_file()]
    if absent:
        return f"{build} does not have {', '.join(absent)}: build it with -Dcuda=enabled"
    note = Path(f"{file}.source")
    note.write_text(source + "\n")
    with tarfile.open(file, "w:xz") as archive:
        add = lambda path, name: archive.add(  # noqa: E731
            path, f"{FOLDER}/{name}", filter=without_caches)
        for name in SOURCES:
            add(root / name, name)
        links = [path.name for path in build.glob("libgqsgd.so*")
                 if path.is_symlink() and path.exists()]
        told = [COMPILERS] if (build / COMPILERS).is_file() else []
        for name in [*targets, *links, *told]:
            add(build / name, f"build/{name}")
        for path in pytest_copies():
            add(path, f"python/{path.name}")
        add(note, "source.txt")
    note.unlink()
    size_bytes = Path(file).stat().st_size
    if size_bytes > LIMIT_BYTES:
        Path(file).unlink()
        return f"the archive has {size_bytes} bytes, over the limit of {LIMIT_BYTES}"
    return ""


def without_caches(member):
    """Leaves out compiled Python, which another Python does not read."""
    return None if Path(member.name).name == "__pycache__" else member


def pytest_copies():
    """Folders and files of pytest and what it imports, as this Python has them."""
    specs = [find_spec(name) for name in PYTEST if name not in sys.builtin_module_names]
    origins = [Path(spec.origin) for spec in specs if spec and spec.origin]
    return [path.parent if path.name == "__init__.py" else path for path in origins]
