"""Groups over NCCL, as far as they get on a machine without a GPU: names, refusals, prototypes."""

import os
from pathlib import Path

import declarations
import gqsgd
import pytest
from gqsgd import nccl as _nccl

CODE = declarations.code_of("gqsgd_nccl.h")


@pytest.fixture
def stand_in():
    """The stand-in of NCCL that the C++ tests use."""
    path = Path(os.environ["GQSGD_BUILD"]) / "tests/gpu/nccl/libnccl_whole.so"
    assert path.is_file(), "build the tests first"
    return str(path)


def test_a_missing_library_is_named():
    with pytest.raises(gqsgd.Unsupported, match=r"/nowhere/libnccl\.so"):
        gqsgd.nccl_unique_id(nccl="/nowhere/libnccl.so")


def test_ids_differ_and_are_no_ids_of_processes(stand_in):
    first, second = (gqsgd.nccl_unique_id(nccl=stand_in) for _ in range(2))
    assert first != second
    with pytest.raises(gqsgd.InvalidArgument, match="nccl_unique_id"):
        gqsgd.Communicator.nccl(b"short", 0, 1, nccl=stand_in)


def test_a_group_needs_a_device_and_an_id_of_its_own_kind(stand_in):
    unique_id = gqsgd.nccl_unique_id(nccl=stand_in)
    with pytest.raises(gqsgd.InvalidArgument, match="rank is 3"):
        gqsgd.Communicator.nccl(unique_id, 3, 2, nccl=stand_in)
    with pytest.raises((gqsgd.Unsupported, gqsgd.InvalidArgument), match=r"GPU|unique_id"):
        gqsgd.Communicator.nccl(gqsgd.unique_id(), 0, 1, nccl=stand_in)


def test_a_borrowed_communicator_needs_the_library_that_made_it():
    with pytest.raises(gqsgd.Unsupported, match="is not loaded in this process"):
        gqsgd.Communicator.from_nccl(4096, nccl="/nowhere/libnccl.so")
    with pytest.raises(gqsgd.InvalidArgument, match="NULL"):
        gqsgd.Communicator.from_nccl(0)


def test_the_prototypes_equal_the_header():
    assert declarations.functions(CODE) == _nccl.PROTOTYPES
