"""What a machine has that PATH and Meson do not find by themselves, and its device kept awake."""

import contextlib
import os
import shutil
import sys
from pathlib import Path

TOOLKIT = Path("/usr/local/cuda")


def program_folders(environment):
    """PATH, and behind it the folders where CUDA and Python keep their programs."""
    named = [Path(environment[name]) / "bin"
             for name in ("CUDA_PATH", "CUDA_HOME", "CUDA_ROOT") if environment.get(name)]
    more = [Path(sys.executable).parent, *named, TOOLKIT / "bin"]
    folders = [folder for folder in environment.get("PATH", "").split(os.pathsep) if folder]
    folders += [str(folder) for folder in more if folder.is_dir() and str(folder) not in folders]
    return os.pathsep.join(folders)


def toolkit_environment(toolkit=TOOLKIT):
    """Meson looks for the toolkit where a variable says, else in /usr/local: one that is elsewhere
    is where its nvcc is."""
    named = any(name in os.environ for name in ("CUDA_PATH", "CUDA_HOME", "CUDA_ROOT"))
    nvcc = shutil.which("nvcc")
    if named or toolkit.exists() or nvcc is None:
        return {}
    root = Path(nvcc).resolve().parents[1]
    return {"CUDA_PATH": str(root)} if (root / "include/cuda_runtime_api.h").exists() else {}


@contextlib.contextmanager
def awake(folder=Path("/dev")):
    """A driver that is not persistent shuts a device down when no process has it open, and every
    program of the check would start it anew. Nothing runs on the device."""
    files = []
    for path in sorted(folder.glob("nvidia[0-9]*")):
        with contextlib.suppress(OSError):
            files.append(os.open(path, os.O_RDWR | os.O_CLOEXEC))
    try:
        yield len(files)
    finally:
        for file in files:
            os.close(file)
