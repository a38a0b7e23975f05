"""One exception class per status, with the built-in base that a Python programmer expects."""

import pickle

import gqsgd
import numpy as np
import pytest
from gqsgd import _abi, errors

FAILURES = {name: number for name, number in _abi.STATUSES.items() if name != "OK"}

BUILT_IN = {
    "INVALID_ARGUMENT": ValueError,
    "UNSUPPORTED": NotImplementedError,
    "NO_MEMORY": MemoryError,
    "TIMEOUT": TimeoutError,
    "PEER_LOST": ConnectionError,
    "OVERFLOW": OverflowError,
    "NONFINITE": FloatingPointError,
    "SYSTEM": OSError,
}


def public_class(name):
    return getattr(gqsgd, name.title().replace("_", ""))


@pytest.mark.parametrize("name", FAILURES)
def test_every_status_has_a_public_class_named_after_it(name):
    error = public_class(name)
    assert issubclass(error, gqsgd.GqsgdError)
    assert (error.status, error.name) == (FAILURES[name], name)
    assert error.__doc__


@pytest.mark.parametrize("name", BUILT_IN)
def test_classes_have_the_built_in_base_one_would_catch(name):
    assert issubclass(public_class(name), BUILT_IN[name])


@pytest.mark.parametrize("name", FAILURES)
def test_check_raises_the_class_of_the_status_with_the_last_sentence(name):
    with pytest.raises(gqsgd.InvalidArgument) as caught:
        gqsgd.Quantizer("no-such-preset")
    with pytest.raises(public_class(name)) as same:
        errors.check(FAILURES[name])
    assert type(same.value) is public_class(name)
    assert str(same.value) == str(caught.value) != ""


def test_check_of_ok_returns():
    errors.check(0)


def test_a_status_newer_than_the_package_is_the_base_class_with_its_number():
    with pytest.raises(gqsgd.GqsgdError) as caught:
        errors.check(57)
    assert type(caught.value) is gqsgd.GqsgdError
    assert caught.value.status == 57


@pytest.mark.parametrize(
    ("words", "call"),
    [
        ("step is 1.0, a float; an integer", lambda comm, x, q: comm.allreduce(x, q, step=1.0)),
        ("timeout_ms is 1.5, a float", lambda comm, x, q: setattr(comm, "timeout_ms", 1.5)),
        ("counts is 3.0, a float", lambda comm, x, q: comm.reduce_scatter(x, q, [3.0])),
        ("counts is 3; a list", lambda comm, x, q: comm.reduce_scatter(x, q, 3)),
        (r"op is \['sum'\]; accepted are", lambda comm, x, q: comm.allreduce(x, q, ["sum"])),
        ("preset_or_spec is 8; a preset or a spec", lambda comm, x, q: gqsgd.Quantizer(8)),
    ],
)
def test_a_wrong_type_is_reported_with_field_and_value(words, call):
    (comm,) = gqsgd.Communicator.local(1)
    with comm, pytest.raises((TypeError, gqsgd.InvalidArgument), match=words):
        call(comm, np.ones(3, np.float32), gqsgd.Quantizer())


@pytest.mark.parametrize("name", FAILURES)
def test_errors_pickle(name):
    error = public_class(name)("rank 2 of 4: gone")
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy), copy.status) == (type(error), str(error), error.status)


@pytest.mark.parametrize("name", _abi.STATUSES)
def test_the_library_knows_the_same_names(name):
    assert _abi.library().gqsgd_status_name(_abi.STATUSES[name]).decode() == name
