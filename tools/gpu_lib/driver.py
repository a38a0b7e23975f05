"""The driver that a build needs: CUDA finds no device with an older one."""

import json

COMPILERS = "meson-info/intro-compilers.json"  # of a build folder, and packed with it
#: {major version of CUDA: least driver}. CUDA 12 begins at 525, its CUB and this library at 12.1.
LEAST = {12: 530, 13: 580}


def needs_of(build):
    """"a driver from 580 on, for CUDA 13"; "" if the build does not tell."""
    major = cuda_of(build)
    return f"a driver from {LEAST[major]} on, for CUDA {major}" if major in LEAST else ""


def too_old(build, driver_version):
    """A sentence if this driver cannot run the build, else ""."""
    major, installed = cuda_of(build), driver_version.split(".")[0]
    if major not in LEAST or not installed.isdigit() or int(installed) >= LEAST[major]:
        return ""
    return f"Driver {driver_version} is too old: this build needs {needs_of(build)}."


def cuda_of(build):
    """The major version of the CUDA that compiled it; 0 if the build does not tell."""
    try:
        found = json.loads((build / COMPILERS).read_text())
        return int(found["host"]["cuda"]["version"].split(".")[0])
    except (OSError, ValueError, KeyError):
        return 0
