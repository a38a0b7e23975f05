"""What counts as an array, and the errors for the rest."""

import array

import gqsgd
import numpy as np
import pytest
from gqsgd.arrays import read_view
from gqsgd.memory import HostMemory
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp


class OnlyDLPack:
    """What another library's CPU array looks like: DLPack and nothing else."""

    def __init__(self, values):
        self.values = values

    def __dlpack__(self, **options):
        return self.values.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.values.__dlpack_device__()


class OnBadDevice(OnlyDLPack):
    def __dlpack_device__(self):
        return (2, 0)  # kDLCUDA

    def __dlpack__(self, **options):
        raise BufferError("this memory is on a GPU")


class NamedBfloat16(OnlyDLPack):
    """A JAX array of bfloat16: NumPy's DLPack refuses it, but it shows a read-only array."""

    def __dlpack__(self, **options):
        raise BufferError("bfloat16 is not supported")

    def __array__(self, dtype=None, copy=None):
        return self.values


@given(
    values=hnp.arrays(
        st.sampled_from([np.float32, np.float16, np.float64]),
        hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5),
    )
)
def test_any_shape_is_viewed_without_a_copy(values):
    buffer = read_view(values, "x")
    assert buffer.address == values.__array_interface__["data"][0]
    assert buffer.count == values.size
    assert buffer.dtype == values.dtype.name
    assert buffer.owner is values
    new = buffer.empty_like()
    assert (new.view.shape, new.view.dtype) == (values.shape, values.dtype)
    assert isinstance(new.owner, np.ndarray)


@pytest.mark.parametrize(("dtype", "number"), [("float32", 0), ("float16", 1), ("float64", 3)])
def test_dtypes_have_the_numbers_of_the_header(dtype, number):
    assert read_view(np.zeros(3, dtype), "x").dtype_number == number


@pytest.mark.parametrize("dtype", ["int32", "uint8", "bool", "complex64", "longdouble", "U3"])
def test_other_dtypes_are_refused_by_name(dtype):
    name = np.dtype(dtype).name
    with pytest.raises(gqsgd.InvalidArgument, match=f"x holds {name}; accepted are float32"):
        read_view(np.zeros(3, dtype), "x")


def test_the_other_byte_order_is_refused():
    swapped = np.zeros(3, np.dtype(np.float32).newbyteorder())
    with pytest.raises(gqsgd.InvalidArgument, match="byte order"):
        read_view(swapped, "x")


@pytest.mark.parametrize(
    ("view", "strides"),
    [
        (np.zeros(8, np.float32)[::2], "8,"),
        (np.zeros((2, 3), np.float32).T, "4, 12"),
        (np.zeros(8, np.float32)[::-1], "-4,"),
        (np.broadcast_to(np.float32(1), (4,)), "0,"),
    ],
)
def test_gaps_and_other_orders_are_refused_with_strides_and_a_hint(view, strides):
    with pytest.raises(gqsgd.InvalidArgument) as caught:
        read_view(view, "x")
    assert f"strides ({strides}" in str(caught.value)
    assert "np.ascontiguousarray(x)" in str(caught.value)


@pytest.mark.parametrize("x", [[1.0, 2.0], 3.0, None, "text", object()])
def test_what_has_no_memory_to_share_is_a_type_error_with_a_hint(x):
    with pytest.raises(TypeError, match=r"hint: np.asarray\(x"):
        read_view(x, "x")


def test_buffers_are_viewed():
    values = array.array("f", [1.0, 2.0])
    buffer = read_view(values, "x")
    assert buffer.address == values.buffer_info()[0]
    assert (buffer.count, buffer.dtype) == (2, "float32")


def test_numpy_scalars_are_arrays_of_no_dimension():
    buffer = read_view(np.float32(3), "x")
    assert (buffer.count, buffer.view.shape, buffer.dtype) == (1, (), "float32")


def test_dlpack_arrays_are_viewed_without_a_copy():
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    buffer = read_view(OnlyDLPack(values), "x")
    assert buffer.address == values.__array_interface__["data"][0]
    assert buffer.view.shape == (2, 3)


def test_a_dlpack_array_elsewhere_is_refused_with_its_own_reason():
    with pytest.raises(gqsgd.InvalidArgument, match="cannot be viewed by NumPy"):
        read_view(OnBadDevice(np.zeros(3, np.float32)), "x")


def test_a_shown_array_of_another_dtype_is_no_way_round_dlpack():
    with pytest.raises(gqsgd.InvalidArgument, match="bfloat16 is not supported"):
        read_view(NamedBfloat16(np.zeros(3, np.float32)), "x")


def test_bfloat16_of_ml_dtypes_is_known_by_name():
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="bfloat16 in NumPy is ml_dtypes' work")
    values = np.zeros(3, ml_dtypes.bfloat16)
    assert read_view(values, "x").dtype_number == 2
    values.flags.writeable = False
    shown = NamedBfloat16(values)
    assert read_view(shown, "x").address == values.__array_interface__["data"][0]


def test_out_must_match_and_be_writable():
    like, result = read_view(np.zeros((2, 3), np.float32), "x"), HostMemory().result
    assert result(out := np.empty((2, 3), np.float32), like).owner is out
    for wrong in (np.empty((3, 2), np.float32), np.empty((2, 3), np.float64)):
        with pytest.raises(
            gqsgd.InvalidArgument, match=r"out is .* x is float32 of shape \(2, 3\)"
        ):
            result(wrong, like)
    fixed = np.empty((2, 3), np.float32)
    fixed.flags.writeable = False
    with pytest.raises(gqsgd.InvalidArgument, match="out is read-only"):
        result(fixed, like)


def test_a_scalar_of_numpy_is_no_place_for_a_result():
    (comm,) = gqsgd.Communicator.local(1)
    scalar, q = np.float32(0.3), gqsgd.Quantizer("none")
    with comm:
        assert comm.allreduce(scalar, q, op="sum") == scalar
        with pytest.raises(gqsgd.InvalidArgument, match=r"out is read-only; hint: np.array\(out\)"):
            comm.allreduce(scalar, q, out=scalar)
        with pytest.raises(gqsgd.InvalidArgument, match=r"out\[0\] is read-only"):
            comm.allreduce_many(values := np.ones(3, np.float32), q, out=values)


def test_a_mask_is_not_dropped_without_a_word():
    masked = np.ma.masked_array(np.ones(3, np.float32), [True, False, False])
    with pytest.raises(gqsgd.InvalidArgument, match=r"x is a masked array.*x.filled\(0\)"):
        read_view(masked, "x")


class OverDevices(OnlyDLPack):
    """A JAX array that is sharded."""

    def __dlpack_device__(self):
        raise BufferError("only supported for unsharded arrays")


def test_an_array_over_many_devices_is_refused_with_its_own_reason():
    (comm,) = gqsgd.Communicator.local(1)
    with comm, pytest.raises(gqsgd.InvalidArgument, match="OverDevices.*unsharded.*gqsgd.jax"):
        comm.allreduce(OverDevices(np.zeros(3, np.float32)), gqsgd.Quantizer())
