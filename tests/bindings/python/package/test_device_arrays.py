"""Arrays of a device and streams, with stand-ins: memory of the host that shows itself as a
device's, and the library told to take it for what it is."""

import ctypes
import sys
import types

import gqsgd
import numpy as np
import pytest
from gqsgd import _abi, device_arrays
from gqsgd.memory import DeviceMemory


class Array:
    """What CuPy shows, over a NumPy array."""

    def __init__(self, array, **changes):
        self.array, self.changes = array, changes

    @property
    def __cuda_array_interface__(self):
        return {"shape": self.array.shape, "typestr": self.array.dtype.str, "version": 3,
                "data": (self.array.ctypes.data, False), **self.changes}


class Packed:
    """What JAX shows: a capsule for a caller that names a stream."""

    def __init__(self, array, strides=None):
        shape = (ctypes.c_int64 * array.ndim)(*array.shape)
        packed = strides and (ctypes.c_int64 * array.ndim)(*strides)
        self.tensor = device_arrays._DLTensor(
            array.ctypes.data - 16, 2, 0, array.ndim, 2, 8 * array.itemsize, 1, shape, packed, 16)
        self.keep, self.streams = (array, shape, packed), []

    def __dlpack_device__(self):
        return 2, 0

    def __dlpack__(self, stream):
        self.streams.append(stream)
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p,
                                                       ctypes.c_void_p]
        return new(ctypes.addressof(self.tensor), b"dltensor", None)


class HostLibrary:
    """The library, which works on the host whatever the stream, and notes the streams."""

    def __init__(self):
        self.library, self.streams = _abi.library(), []

    def __getattr__(self, name):
        function = getattr(self.library, name)
        if name not in ("gqsgd_norm", "gqsgd_quantize", "gqsgd_reduce", "gqsgd_reduce_many",
                        "gqsgd_dequantize"):
            return function

        def on_the_host(*arguments):
            self.streams.append(arguments[-1])
            return function(*arguments[:-1], None)

        return on_the_host


@pytest.fixture
def device(monkeypatch):
    """The stand-in's package and library."""
    package = types.ModuleType("standin")
    package.empty = lambda count, dtype: Array(np.full(count, 0xCA, np.uint8).astype(dtype))
    monkeypatch.setitem(sys.modules, "standin", package)
    monkeypatch.setattr(Array, "__module__", "standin")
    library = HostLibrary()
    monkeypatch.setattr(_abi, "library", lambda: library)
    return library


VALUES = [np.linspace(-1, 2, 1000, dtype=np.float32), np.linspace(3, -1, 1000, dtype=np.float32)]


@pytest.mark.parametrize("preset", ["blocks-8", "paper-ge4", "rotated-4-8"])
def test_all_stages_take_arrays_of_a_device(device, preset):
    q = gqsgd.Quantizer(preset)
    sites = [gqsgd.Site(rank=rank, size=2) for rank in range(2)]
    host_norms = np.maximum(*[gqsgd.norm(x, q, site=s) for x, s in zip(VALUES, sites, strict=True)])
    host_words = [gqsgd.quantize(x, q, host_norms, site=s)
                  for x, s in zip(VALUES, sites, strict=True)]
    host_sum, host_scales = gqsgd.reduce_many(host_words, q, host_norms, site=sites[0], count=1000)
    host_mean = gqsgd.dequantize(host_sum, q, host_scales, 1000, site=sites[0])

    device.streams.clear()
    own = gqsgd.norm(Array(VALUES[0]), q, site=sites[0], stream=7)
    np.testing.assert_array_equal(own.array, gqsgd.norm(VALUES[0], q, site=sites[0]))
    norms = Array(host_norms)
    words = [gqsgd.quantize(Array(x), q, norms, site=s, stream=7)
             for x, s in zip(VALUES, sites, strict=True)]
    for here, there in zip(host_words, words, strict=True):
        np.testing.assert_array_equal(there.array, here)
    total, scales = gqsgd.reduce_many(words, q, norms, site=sites[0], count=1000, stream=7)
    np.testing.assert_array_equal(total.array, host_sum)
    np.testing.assert_array_equal(scales.array, host_scales)
    mean = gqsgd.dequantize(total, q, scales, 1000, site=sites[0], stream=7)
    np.testing.assert_array_equal(mean.array, host_mean)
    assert [number for number in device.streams if number is not None] == [7] * 5


def test_reduce_works_in_place(device):
    q, site = gqsgd.Quantizer("paper-gl8"), gqsgd.Site(size=2, reduction_depth=1, hop=1)
    a, b = np.full(8, 0x01020304, np.uint32), np.full(8, 0x10101010, np.uint32)
    there = Array(b.copy())
    assert gqsgd.reduce(Array(a), there, q, site=site, out=there) is there
    np.testing.assert_array_equal(there.array, a + b)
    assert device.streams == [1]
    with pytest.raises(gqsgd.InvalidArgument, match="out=b"):
        gqsgd.reduce(Array(a), there, q, site=site)


def test_dlpack_is_read_without_a_copy_and_told_the_stream(device):
    q, site = gqsgd.Quantizer("paper-gl8"), gqsgd.Site()
    x = Packed(VALUES[0])
    norms = Array(np.float32([2]))
    view = device_arrays.device_view(x, "x", 9)
    assert (view.address, view.count, view.dtype) == (VALUES[0].ctypes.data, 1000, "float32")
    assert x.streams == [9]
    with pytest.raises(gqsgd.Unsupported, match="makes no arrays.*DLPack"):
        gqsgd.quantize(x, q, norms, site=site, stream=9)
    with pytest.raises(gqsgd.InvalidArgument, match="b is read-only"):
        DeviceMemory(9).values(x, "b", 1000, write=True)
    with pytest.raises(gqsgd.InvalidArgument, match="not contiguous"):
        device_arrays.device_view(Packed(np.zeros((2, 3), np.float32), strides=(1, 2)), "x")


class Numbered:
    def __init__(self, **attributes):
        self.__dict__.update(attributes)


class Protocol:
    def __cuda_stream__(self):
        return 0, 66


@pytest.mark.parametrize("stream, number", [
    (5, 5), (Numbered(cuda_stream=77), 77), (Numbered(cuda_stream=0), 1), (Numbered(ptr=0), 1),
    (Protocol(), 66)])
def test_streams_are_numbers_or_objects_of_frameworks(stream, number):
    assert device_arrays.stream_number(stream) == number


def test_without_a_stream_the_array_says_on_which_it_was_made():
    values = VALUES[0]
    assert device_arrays.stream_number(None, Array(values, stream=33)) == 33
    assert device_arrays.stream_number(None, Array(values)) == device_arrays.LEGACY_STREAM


@pytest.mark.parametrize("stream, said", [(0, "either default stream"), (-1, "does not fit")])
def test_ambiguous_streams_are_refused(stream, said):
    with pytest.raises(gqsgd.InvalidArgument, match=said):
        device_arrays.stream_number(stream)


def test_what_does_not_fit_is_refused_by_name(device):
    q, site, norms = gqsgd.Quantizer("paper-gl8"), gqsgd.Site(), Array(np.float32([2]))
    x = Array(VALUES[0])
    refused = [
        (Array(np.arange(4)), norms, "x holds int64"),
        (Array(np.zeros((4, 4), np.float32)[:, ::2], strides=(16, 8)), norms, "x is not contig"),
        (x, np.float32([2]), "norms is a ndarray in host memory"),
        (x, Array(np.float64([2])), "norms holds float64; accepted are float32"),
        (x, Array(np.float32([2, 2])), "norms has 2 elements, 1 are needed")]
    for values, scale, said in refused:
        with pytest.raises(gqsgd.InvalidArgument, match=said):
            gqsgd.quantize(values, q, scale, site=site)
    with pytest.raises(gqsgd.InvalidArgument, match="stream is 7 .*host memory"):
        gqsgd.norm(VALUES[0], q, site=site, stream=7)
