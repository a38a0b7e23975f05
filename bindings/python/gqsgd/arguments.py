"""Turns Python arguments into the strings and numbers of the ABI; arrays are in arrays.py.

Only what cannot be handed to the library is refused here: a number that its C type would change
without a word, and names for which the ABI has numbers.
"""

from __future__ import annotations

import ctypes
import operator
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from . import _abi
from .errors import InvalidArgument


def joined_fields(first: str, fields: Mapping[str, Any]) -> bytes:
    """The string `first,name=value,..`: booleans become true and false, a sequence becomes a:b:..
    """
    parts = [first] if first else []
    parts += [f"{name}={_value_string(value)}" for name, value in fields.items()]
    return c_string("the string", ",".join(parts))


def c_string(name: str, text: Any) -> bytes:
    """A string as the library reads it: UTF-8, or the bytes of a file name that is none, as
    os.fsdecode returned it."""
    if not isinstance(text, str):
        raise TypeError(f"{name} is {text!r}, a {type(text).__name__}; a string is needed")
    if "\0" in text:  # C would read a shorter string than the one given.
        raise InvalidArgument(f"{name} {text!r} holds a NUL character")
    try:
        return text.encode(errors="surrogateescape")
    except UnicodeEncodeError as error:
        raise InvalidArgument(
            f"{name} {text!r} holds a surrogate, character {error.start}, for which UTF-8 has no "
            "bytes"
        ) from None


def _value_string(value: Any) -> str:
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    values = sequence(value)
    return str(value) if values is None else ":".join(map(str, values))


def sequence(value: Any) -> list[Any] | None:
    """The elements of a sequence or an array; None if it is neither."""
    if hasattr(value, "tolist"):  # NumPy's, torch's: also of their numbers
        value = value.tolist()
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        return list(value)
    return None


STEP_MAX, INDEX_MAX = 2**32 - 1, 2**16 - 1  #: of the random key, as the library takes it


def integer(name: str, value: Any, c_type: Any, most: int | None = None) -> int:
    """`value` as an int that `c_type` holds unchanged; ctypes itself would drop the high bits.
    most: the largest that the library takes of this argument, for the sentence."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(
            f"{name} is {value!r}, a {type(value).__name__}; an integer is needed"
        ) from None
    if c_type(number).value != number:
        if most is not None:
            raise InvalidArgument(f"{name} is {number}; accepted are 0 to {most}")
        raise InvalidArgument(
            f"{name} is {number}, which does not fit {8 * ctypes.sizeof(c_type)} bits; "
            f"give a smaller {'or non-negative ' if number < 0 else ''}integer"
        )
    return number


def whole_id(unique_id: bytes, hint: str) -> bytes:
    """The bytes of a unique id; C would read beyond the end of a shorter one."""
    try:
        len(unique_id)  # of a number bytes() would be as many zeros
        whole = bytes(unique_id)
    except TypeError:
        raise TypeError(
            f"unique_id is a {type(unique_id).__name__}, not bytes; hint: pass on {hint}"
        ) from None
    if len(whole) != _abi.UNIQUE_ID_SIZE_BYTES:
        raise InvalidArgument(
            f"unique_id has {len(whole)} bytes, not {_abi.UNIQUE_ID_SIZE_BYTES}; "
            f"hint: pass on {hint}"
        )
    return whole


def number_of(field: str, name: str, numbers: dict[str, int]) -> int:
    """The ABI's number for one of the names of an enumeration."""
    if not isinstance(name, str) or name not in numbers:
        raise InvalidArgument(f"{field} is {name!r}; accepted are {', '.join(numbers)}")
    return numbers[name]


def config(schedule: str, step: int | None, index: int) -> _abi.ConfigStruct | None:
    """The rarely used arguments of a call, None where all have their defaults. Without a step the
    call takes the communicator's counter."""
    number = number_of("schedule", schedule, _abi.SCHEDULES)
    if step is None:
        if index != 0:
            raise InvalidArgument(f"index is {index} without a step; give both, or neither")
        return _abi.ConfigStruct(number) if number else None
    return _abi.ConfigStruct(
        number,
        _abi.STEP_SOURCES["given"],
        integer("step", step, ctypes.c_uint64, STEP_MAX),
        integer("index", index, ctypes.c_uint64, INDEX_MAX),
    )
