"""What of torch.cuda this package needs, in one place: tests on machines without a GPU bring a
double of `cuda`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch

import gqsgd

CPU = torch.device("cpu")


class Cuda:
    """Streams of GPUs, and futures that know of them."""

    def current_device(self) -> torch.device:
        return torch.device("cuda", torch.cuda.current_device())

    def current_stream(self, device: torch.device) -> Any:
        return torch.cuda.current_stream(device)

    def new_stream(self, device: torch.device) -> Any:
        """A stream that goes before those of computation, as communication should."""
        return torch.cuda.Stream(device, priority=-1)

    def on_device(self, device: torch.device) -> AbstractContextManager[Any]:
        return torch.cuda.device(device)

    def on_stream(self, stream: Any) -> AbstractContextManager[Any]:
        return torch.cuda.stream(stream)

    def future(self, device: torch.device) -> torch.futures.Future[torch.Tensor]:
        """Set, it notes what is enqueued on the current stream; a waiter makes its own stream
        wait."""
        return torch.futures.Future(devices=[device])

    def is_capturing(self) -> bool:
        """Whether what the current stream gets becomes part of a CUDA graph."""
        return torch.cuda.is_current_stream_capturing()

    def synchronize(self, device: torch.device) -> None:
        torch.cuda.synchronize(device)

    def step_keys(self, device: torch.device, count: int) -> torch.Tensor:
        """Multiples of 2**32 from 0 on: random keys of step 0, by index."""
        return torch.arange(count, dtype=torch.int64, device=device) << 32

    def add(self, numbers: torch.Tensor, addend: int) -> None:
        """Enqueued on the current stream."""
        numbers.add_(addend)

    def first(self, numbers: torch.Tensor) -> int:
        """The first of them, once the current stream has got here."""
        return int(numbers[0])

    def keep(self, tensor: torch.Tensor, stream: Any) -> None:
        """Its memory is used by `stream`: once freed, torch gives it away only after that."""
        tensor.record_stream(stream)

    def read_later(
        self, make: Callable[[torch.Tensor], torch.Tensor], values: torch.Tensor
    ) -> Callable[[], torch.Tensor]:
        """Enqueues `make(values)` and its copy to host memory on the current stream; what is
        returned waits for that copy."""
        made = make(values)
        copy = torch.empty_like(made, device=CPU, pin_memory=True)
        copy.copy_(made, non_blocking=True)
        there = torch.cuda.Event()
        there.record()

        def read() -> torch.Tensor:
            there.synchronize()
            return copy

        return read


cuda = Cuda()


def read_later(
    make: Callable[[torch.Tensor], torch.Tensor], values: torch.Tensor
) -> Callable[[], torch.Tensor]:
    """`make(values)` as a tensor of the host, made of what the values are now, or behind what the
    current stream has; the returned function waits for it."""
    if values.device != CPU:
        return cuda.read_later(make, values)
    made = make(values)
    return lambda: made


def require_no_capture() -> None:
    """Refuses to connect ranks in a CUDA graph."""
    if cuda.is_capturing():
        raise gqsgd.Unsupported(
            "the stream is being captured, and there is no communicator yet, which a CUDA graph "
            "cannot make; hint: a few steps outside of a capture first (docs/PYTORCH_GPU.md)"
        )


def require_reachable(tensor: torch.Tensor, role: str) -> None:
    """Refuses what no communicator of this package reaches."""
    if tensor.is_sparse:
        raise gqsgd.Unsupported(f"{role} is a sparse tensor; hint: Embedding(sparse=False)")
    require_known(tensor.device, f"{role} is on")


def require_known(device: torch.device, said: str) -> None:
    """Refuses other kinds of devices than the package knows."""
    if device.type not in ("cpu", "cuda"):
        raise gqsgd.Unsupported(f"{said} {device}; accepted are cpu and cuda")


def current_stream(tensor: torch.Tensor) -> Any:
    """What a call on `tensor` is enqueued on; None in host memory."""
    return None if tensor.device == CPU else cuda.current_stream(tensor.device)
