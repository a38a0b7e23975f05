"""An installation of the library as a user has it, in a folder of its own."""

import os
import subprocess

import pytest


@pytest.fixture(scope="session")
def installed(build_directory, tmp_path_factory):
    """Environment of one who has installed the library: pkg-config and the loader find it."""
    prefix = tmp_path_factory.mktemp("prefix")
    subprocess.run(["meson", "install", "-C", build_directory, "--no-rebuild", "--destdir", prefix],
                   check=True, capture_output=True)
    (description,) = prefix.rglob("gqsgd.pc")
    return {**os.environ, "PKG_CONFIG_PATH": str(description.parent),
            "PKG_CONFIG_SYSROOT_DIR": str(prefix), "LD_LIBRARY_PATH": str(description.parents[1])}
