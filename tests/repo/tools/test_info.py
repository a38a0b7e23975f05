"""gqsgd-info and `python -m gqsgd` say which UCX ranks on several machines would use, or the two
commands that install one."""

import os
import re
import subprocess
import sys

import gqsgd
import pytest
from gqsgd.network import ucx

TIMEOUT_S = 100
COMMANDS = ("pip install libucx-cu12", "apt-get install libucx0")


@pytest.fixture
def said(root, build_directory, library):
    """A function: what each program says of ranks on several machines, in one line."""
    def run(**environment):
        environment = {**os.environ, "GQSGD_LIBRARY": str(library),
                       "PYTHONPATH": str(root / "bindings/python"), **environment}
        lines = []
        for command, begin in (([build_directory / "tools/gqsgd-info"], "network "),
                               ([sys.executable, "-m", "gqsgd"], "ranks on several machines:")):
            done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S,
                                  check=True, env=environment)
            lines += [line for line in done.stdout.splitlines() if begin in line]
        return lines

    return run


def test_the_file_in_use_and_its_version_or_how_to_get_one(said):
    try:
        found = ucx.report()
    except gqsgd.Unsupported:
        by_info, by_python = said()
        assert all(part in line for part in COMMANDS for line in (by_info, by_python))
        return
    by_info, by_python = said(GQSGD_UCX_LIBRARY=found.path)
    assert by_info == f"network          {found}"
    assert by_python.endswith(f"ranks on several machines: {found}")


def test_a_file_that_is_not_there_is_named_with_the_two_commands(said):
    for line in said(GQSGD_UCX_LIBRARY="/nowhere/libucp.so.0"):
        assert all(part in line for part in ("/nowhere/libucp.so.0", *COMMANDS))


def test_info_names_libcrypto_where_that_is_missing(said):
    try:
        ucx.report()
    except gqsgd.Unsupported:
        return  # UCX is asked for first
    by_info, _ = said(GQSGD_CRYPTO_LIBRARY="/nowhere/libcrypto.so.3")
    assert "/nowhere/libcrypto.so.3" in by_info and "apt-get install libssl3" in by_info


def test_info_prints_every_variable_that_the_library_reads_and_no_secret(root, build_directory):
    page = (root / "docs/TOOLS.md").read_text()
    rows = re.findall(r"^\| (`GQSGD_.*?) \| library \|", page, re.MULTILINE)
    names = sorted(name for row in rows for name in re.findall(r"GQSGD_\w+", row))
    assert len(names) > 10
    done = subprocess.run([build_directory / "tools/gqsgd-info"], capture_output=True, text=True,
                          timeout=TIMEOUT_S, check=True,
                          env={**os.environ, "GQSGD_SECRET": "swordfish", "GQSGD_PORT": "31000"})
    assert re.findall(r"^(GQSGD_\w+) ", done.stdout, re.MULTILINE) == names
    assert "swordfish" not in done.stdout
    assert re.search(r"^GQSGD_SECRET +set \(", done.stdout, re.MULTILINE)
    assert re.search(r"^GQSGD_PORT +31000 \(", done.stdout, re.MULTILINE)
