"""Steps of a HookState: a number of the host, and from the first capture of a CUDA graph on one
in memory of the device, which replays advance."""

from __future__ import annotations

from typing import Any

import torch

from gqsgd import Unsupported

from . import devices

#: Calls of a backward pass that a graph can have.
KEY_COUNT = 4096


class Steps:
    """The step of the next backward pass, and the random keys of its calls.

    On a device there is a key for each call of a pass, step + index * 2**32, as `step=` of a
    Communicator's calls takes it. They have the step of the last pass that began. What changes them
    is enqueued: in a graph each replay does. A pass outside of graphs keeps them equal to the
    host's number, because a capture may follow.
    """

    def __init__(self) -> None:
        self._number = 0
        self.current = 0  #: the step of the pass under way, where the host counts
        self._keys: torch.Tensor | None = None
        self._stream: Any = None
        self._held = 0  # the step of the keys, while the host knows it
        self.on_device = False  #: whether the device alone knows the step

    @property
    def number(self) -> int:
        """The host waits for the current stream once the device counts."""
        if not self.on_device:
            return self._number
        self._order()
        return devices.cuda.first(self._keys) + 1

    @number.setter
    def number(self, number: int) -> None:
        if self._keys is not None:
            self._order()  # a replay may follow on the current stream
            if self.on_device:
                self._held = devices.cuda.first(self._keys)
            self._hold(number - 1)
        self._number = number

    def attach(self, device: torch.device, stream: Any) -> None:
        """The calls of passes are on this stream from now on; graphs of earlier ones are no more.
        """
        number, self.on_device, self._stream = self.number, False, stream
        self._keys, self._held = devices.cuda.step_keys(device, KEY_COUNT), 0
        self._hold(number - 1)
        self._number = number

    def begin(self) -> None:
        """A new backward pass, whose first work is on the stream already."""
        self.current = self._number
        if self._keys is None:
            return
        with devices.cuda.on_stream(self._stream):
            self.on_device = self.on_device or devices.cuda.is_capturing()
            if self.on_device:
                devices.cuda.add(self._keys, 1)
            else:
                self._hold(self.current)

    def count(self) -> None:
        """The pass has made calls, perhaps its last ones: the next pass has other keys."""
        if not self.on_device:
            self._number = self.current + 1

    def key(self, index: int) -> dict[str, Any]:
        """Step and index of a call of the pass, as a Communicator's calls take them."""
        if self._keys is None or not self.on_device:
            return {"step": self.current, "index": index}
        if index >= KEY_COUNT:
            raise Unsupported(
                f"this backward pass has more than {KEY_COUNT} calls, which a CUDA graph cannot "
                "have; hint: DistributedDataParallel(bucket_cap_mb=...) makes larger buckets"
            )
        return {"step": self._keys[index : index + 1]}

    def _hold(self, step: int) -> None:
        devices.cuda.add(self._keys, step - self._held)
        self._held = step

    def _order(self) -> None:
        """What the current stream gets from now on comes after the calls so far."""
        devices.cuda.current_stream(self._keys.device).wait_stream(self._stream)
