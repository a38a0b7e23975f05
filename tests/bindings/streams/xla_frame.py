"""A call of XLA's made by hand: frame, buffers, attributes and XLA's own functions, so that the
handlers of libgqsgd_jax.so run without XLA. bindings/jax/xla_ffi.h has these structs in C."""

import ctypes
import os
from ctypes import CFUNCTYPE, POINTER, c_char_p, c_int, c_int32, c_int64, c_size_t, c_void_p
from pathlib import Path

import numpy as np
from gqsgd import _abi
from gqsgd.quantizer import handle_of

_file = Path(os.environ["GQSGD_BUILD"]) / "bindings" / "jax" / "libgqsgd_jax.so"
library = ctypes.CDLL(str(_file.resolve()))
CPU, CUDA = 0, 1  # kinds of devices

_CALLED = ("gqsgd_allreduce", "gqsgd_allreduce_many", "gqsgd_comm_refuse", "gqsgd_last_error",
           "gqsgd_status_name")
_DTYPES = {"uint32": 8, "float16": 10, "float32": 11, "float64": 12}
_S32, _ARRAY, _SCALAR, _EXECUTE = 4, 1, 3, 3


def struct(name, *fields, headed=True):
    head = [("struct_size", c_size_t), ("extension_start", c_void_p)] if headed else []
    return type(name, (ctypes.Structure,), {"_fields_": [*head, *fields]})


ApiVersion = struct("ApiVersion", ("major", c_int), ("minor", c_int))
ErrorCreate = struct("ErrorCreate", ("message", c_char_p), ("errc", c_int))
StreamGet = struct("StreamGet", ("ctx", c_void_p), ("stream", c_void_p))
OrdinalGet = struct("OrdinalGet", ("ctx", c_void_p), ("device_ordinal", c_int32))
_functions = [CFUNCTYPE(c_void_p, POINTER(args)) for args in (ErrorCreate, StreamGet, OrdinalGet)]
Api = struct("Api", ("version", ApiVersion), ("internal", c_void_p),
             ("error_create", _functions[0]), ("others", c_void_p * 3),
             ("stream_get", _functions[1]), ("more_others", c_void_p * 12),
             ("device_ordinal_get", _functions[2]))
Buffer = struct("Buffer", ("dtype", c_int), ("data", c_void_p), ("rank", c_int64),
                ("dims", POINTER(c_int64)))
Buffers = struct("Buffers", ("size", c_int64), ("types", c_void_p),
                 ("buffers", POINTER(POINTER(Buffer))))
Bytes = struct("Bytes", ("ptr", c_char_p), ("len", c_size_t), headed=False)
Scalar = struct("Scalar", ("dtype", c_int), ("value", c_void_p), headed=False)
Numbers = struct("Numbers", ("dtype", c_int), ("size", c_size_t), ("data", c_void_p), headed=False)
Attributes = struct("Attributes", ("size", c_int64), ("types", POINTER(c_int)),
                    ("names", POINTER(POINTER(Bytes))), ("attrs", POINTER(c_void_p)))
Frame = struct("Frame", ("api", POINTER(Api)), ("ctx", c_void_p), ("stage", c_int),
               ("args", Buffers), ("rets", Buffers), ("attrs", Attributes))
Metadata = struct("Metadata", ("struct_size", c_size_t), ("version", ApiVersion),
                  ("traits", ctypes.c_uint32), headed=False)
MetadataExtension = struct("MetadataExtension", ("struct_size", c_size_t), ("type", c_int),
                           ("next", c_void_p), ("metadata", POINTER(Metadata)), headed=False)

for _name in ("allreduce", "allreduce_on_stream"):
    getattr(library, f"gqsgd_jax_{_name}").restype = c_void_p


class XlaError(Exception):
    """What a handler made with XLA's function for errors."""

    def __init__(self, code, message):
        super().__init__(message)
        self.code = code


def number_of(handle, **instead):
    """The number of a communicator or quantizer in programs; `instead` of the library's functions
    handlers call these."""
    functions = {name: getattr(_abi.library(), name) for name in _CALLED} | instead
    addresses = [ctypes.cast(functions[name], c_void_p) for name in _CALLED]
    number = library.gqsgd_jax_add((c_void_p * len(_CALLED))(*addresses), c_void_p(handle))
    assert number >= 0
    return number


def set_devices(kind, numbers):
    given = (c_int32 * len(numbers))(*numbers)
    assert library.gqsgd_jax_set_devices(kind, given, len(numbers)) == 0


class Call:
    """A call of gqsgd.jax as XLA makes it. Operands and results are NumPy arrays, the state last;
    without a stream XLA has none to give."""

    def __init__(self, operands, results, comms, q, stream=None, ordinal=0, op="mean"):
        self.stream, self.ordinal, self.errors, self.kept = stream, ordinal, [], [q]
        self.api = Api(error_create=_functions[0](self._create_error),
                       stream_get=_functions[1](self._get_stream),
                       device_ordinal_get=_functions[2](self._get_ordinal))
        numbers = np.array([number_of(comm._handle) for comm in comms], np.int32)
        scalars = {"quantizer": number_of(handle_of(q)), "op": _abi.OPS[op], "schedule": 0}
        self.frame = Frame(api=ctypes.pointer(self.api), stage=_EXECUTE,
                           args=self._buffers(operands), rets=self._buffers(results),
                           attrs=self._attributes(numbers, scalars))

    def run(self, handler):
        """Raises XlaError."""
        if getattr(library, handler)(ctypes.byref(self.frame)):
            raise XlaError(*self.errors[-1])

    def repeat_first(self, count):
        """`count` times the first tensor, then the state."""
        for buffers in (self.frame.args, self.frame.rets):
            addresses = np.full(count + 1, ctypes.addressof(buffers.buffers[0].contents), np.uint64)
            addresses[-1] = ctypes.addressof(buffers.buffers[buffers.size - 1].contents)
            self.kept.append(addresses)
            buffers.buffers = ctypes.cast(addresses.ctypes.data, POINTER(POINTER(Buffer)))
            buffers.size = count + 1

    def _buffers(self, arrays):
        buffers = [Buffer(dtype=_DTYPES[array.dtype.name], data=array.ctypes.data, rank=array.ndim,
                          dims=(c_int64 * array.ndim)(*array.shape)) for array in arrays]
        pointers = (POINTER(Buffer) * len(buffers))(*map(ctypes.pointer, buffers))
        self.kept += [arrays, buffers, pointers]
        return Buffers(size=len(buffers), buffers=pointers)

    def _attributes(self, numbers, scalars):
        values = {"comms": Numbers(_S32, len(numbers), numbers.ctypes.data)}
        for name, value in scalars.items():
            number = np.array(value, np.int32)
            values[name] = Scalar(_S32, number.ctypes.data)
            self.kept.append(number)
        names = [Bytes(name.encode(), len(name)) for name in values]
        types = [_ARRAY if name == "comms" else _SCALAR for name in values]
        self.kept += [numbers, values, names]
        return Attributes(
            size=len(values), types=(c_int * len(types))(*types),
            names=(POINTER(Bytes) * len(names))(*map(ctypes.pointer, names)),
            attrs=(c_void_p * len(values))(*map(ctypes.addressof, values.values())))

    def _create_error(self, args):
        self.errors.append((args.contents.errc, args.contents.message.decode()))
        return 1  # any address: handlers pass it on

    def _get_stream(self, args):
        if self.stream is None:
            self.errors.append((13, "XLA has no stream"))
            return 1
        args.contents.stream = self.stream.__cuda_stream__()[1]
        return None

    def _get_ordinal(self, args):
        args.contents.device_ordinal = self.ordinal
        return None


def metadata_of(handler):
    """What a handler says of itself: version of the interface, and traits."""
    metadata = Metadata(ctypes.sizeof(Metadata), traits=0xffffffff)
    extension = MetadataExtension(ctypes.sizeof(MetadataExtension), 1, None,
                                  ctypes.pointer(metadata))
    frame = Frame(extension_start=ctypes.addressof(extension), stage=_EXECUTE)
    assert not getattr(library, handler)(ctypes.byref(frame))
    return metadata.version.major, metadata.version.minor, metadata.traits
