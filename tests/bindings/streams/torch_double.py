"""Tensors and streams of the device of threads for gqsgd.torch: its seam to torch.cuda, doubled."""

import contextlib
import threading

import gqsgd.torch
import numpy as np
import threads_device as device
import torch
from gqsgd.torch import devices, fsdp, groups, hook

GPU = torch.device("cuda", 0)


class Tensor(torch.Tensor):
    """A CPU tensor that says it is on a GPU; its memory is the double's."""

    device = GPU

    def detach(self):  # inside operators torch would make a CPU tensor of it
        return self

    def new_empty(self, shape, dtype=None):
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
        return empty(shape, str(dtype or self.dtype).removeprefix("torch."))


def empty(shape, dtype):
    return torch.from_numpy(device.memory(shape, np.dtype(dtype))).as_subclass(Tensor)


def tensor(values):
    values = np.asarray(values, np.float32)
    new = torch.from_numpy(device.memory(values.shape, values.dtype)).as_subclass(Tensor)
    new.copy_(torch.from_numpy(values))
    return new


class Future:
    """What torch.futures.Future(devices=...) does with streams: it notes where it was set."""

    def __init__(self, cuda):
        self.cuda, self.result = cuda, None

    def set_result(self, result):
        self.result, self.stream = result, self.cuda.current_stream(GPU)

    def wait(self):
        self.cuda.current_stream(GPU).wait_stream(self.stream)
        return self.result


class Cuda:
    """Each thread, which is a rank, has streams of its own."""

    def __init__(self):
        self.own, self.kept = threading.local(), []

    def current_device(self):
        return GPU

    def current_stream(self, _):
        if not hasattr(self.own, "stream"):
            self.own.stream = device.Stream()
        return self.own.stream

    def new_stream(self, _):
        return device.Stream()

    def is_capturing(self):
        return self.current_stream(GPU).is_capturing()

    def synchronize(self, _):
        self.current_stream(GPU).synchronize()

    def step_keys(self, _, count):
        keys = empty((count,), np.int64)
        keys.copy_(torch.arange(count, dtype=torch.int64) << 32)
        return keys

    def add(self, numbers, addend):
        self.current_stream(GPU).add(numbers.numpy(), addend)

    def first(self, numbers):
        self.current_stream(GPU).synchronize()
        return int(numbers.numpy()[0])

    def on_device(self, _):
        return contextlib.nullcontext()

    @contextlib.contextmanager
    def on_stream(self, stream):
        before, self.own.stream = self.current_stream(GPU), stream
        try:
            yield
        finally:
            self.own.stream = before

    def future(self, _):
        return Future(self)

    def keep(self, tensor, stream):
        self.kept.append((tensor.data_ptr(), stream))

    def read_later(self, make, values):
        self.current_stream(GPU).synchronize()
        made = make(values.as_subclass(torch.Tensor))
        return lambda: made


def use(monkeypatch, size, work):
    """`work(rank)` on threads that are the ranks of one process group."""
    cuda, store, here = Cuda(), torch.distributed.HashStore(), threading.local()
    monkeypatch.setattr(devices, "cuda", cuda)
    monkeypatch.setattr(groups, "_member", lambda _: here.member)
    monkeypatch.setattr(groups, "stream_of", lambda *_: 0)
    monkeypatch.setattr(groups, "_timeout_of", lambda _: {})
    for module in (fsdp, hook):  # ranks draw the same numbers, here in one process
        monkeypatch.setattr(module, "take_turn", lambda *_: None)

    def run(rank):
        here.member = groups.Member(device.Stream(), rank, size, store)  # any object is a group
        return work(rank)

    return cuda, device.on_ranks(size, run)


class Bucket:
    """What DDP gives to a hook."""

    def __init__(self, parameters, buffer, index=0, last=True):
        self._parameters, self._buffer, self._index, self._last = parameters, buffer, index, last

    def parameters(self):
        return self._parameters

    def buffer(self):
        return self._buffer

    def index(self):
        return self._index

    def is_last(self):
        return self._last


assert gqsgd.torch
