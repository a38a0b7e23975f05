"""An installation of the library as a user has it, in a folder of its own."""

import os
import subprocess

import pytest


@pytest.fixture(scope="session")
def prefix(build_directory, tmp_path_factory):
    """The folder that was installed into, in the place of /."""
    folder = tmp_path_factory.mktemp("prefix")
    subprocess.run(["meson", "install", "-C", build_directory, "--no-rebuild", "--destdir", folder],
                   check=True, capture_output=True)
    return folder


@pytest.fixture(scope="session")
def installed(prefix):
    """Environment of one who has installed the library: pkg-config, CMake and the loader find
    it."""
    (description,) = prefix.rglob("gqsgd.pc")
    (header,) = prefix.rglob("gqsgd.h")
    return {**os.environ, "PKG_CONFIG_PATH": str(description.parent),
            "PKG_CONFIG_SYSROOT_DIR": str(prefix), "LD_LIBRARY_PATH": str(description.parents[1]),
            "CMAKE_PREFIX_PATH": str(header.parents[1])}
