"""The rarely used arguments of a collective: its schedule, and its random key, whose step may be in
memory of a device."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import _abi
from ..arguments import config, number_of
from ..device_arrays import DeviceView, device_view, is_on_device
from ..errors import InvalidArgument

# Types of a step on a device, and how many elements have its 64 bits.
_ELEMENT_COUNTS = {"int64": 1, "uint64": 1, "int32": 2, "uint32": 2}
_NEEDED = (
    "a step on a device is one int64 or uint64, step + index * 2**32, or two uint32, step and index"
)


def call_config(
    schedule: str, step: Any, index: int, stream: int | None, x: Any
) -> _abi.ConfigStruct | None:
    """What `config` makes; a step on a device is passed by its address, and the struct keeps it.

    stream: that of the call, as the library takes it; None in host memory. x: an array of the call.
    """
    if isinstance(step, (int, np.integer, type(None))) or not is_on_device(step):
        return config(schedule, step, index)
    number = number_of("schedule", schedule, _abi.SCHEDULES)
    if index != 0:
        raise InvalidArgument(
            f"index is {index}, and step is on a device, where the index is beside it: {_NEEDED}")
    view = _step_view(step, stream, x)
    made = _abi.ConfigStruct(number, _abi.STEP_SOURCES["device"], device_step=view.address)
    made.kept = view
    return made


def _step_view(step: Any, stream: int | None, x: Any) -> DeviceView:
    if stream is None:
        raise InvalidArgument(
            f"step is a {type(step).__name__} on a device, and the arrays of the call are in host "
            "memory; hint: give an integer"
        )
    packages = [type(each).__module__.partition(".")[0] for each in (step, x)]
    devices = [str(getattr(each, "device", "")) for each in (step, x)]
    if packages[0] == packages[1] and all(devices) and devices[0] != devices[1]:
        raise InvalidArgument(
            f"step is on {devices[0]}, and the arrays of the call are on {devices[1]}")
    view = device_view(step, "step", stream)
    if view.count != _ELEMENT_COUNTS.get(view.dtype):
        raise InvalidArgument(f"step has {view.count} elements of {view.dtype}; {_NEEDED}")
    return view
