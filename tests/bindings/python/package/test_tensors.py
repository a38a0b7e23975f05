"""CPU tensors of torch: viewed, filled and returned; torch itself is never imported by gqsgd."""

import gqsgd
import numpy as np
import pytest
from gqsgd.arrays import read_view

torch = pytest.importorskip("torch", reason="torch is not installed; tensors are not tested")


@pytest.mark.parametrize(
    ("dtype", "number"),
    [(torch.float32, 0), (torch.float16, 1), (torch.bfloat16, 2), (torch.float64, 3)],
)
def test_tensors_are_viewed_without_a_copy(dtype, number):
    tensor = torch.arange(6).to(dtype).reshape(2, 3)
    buffer = read_view(tensor, "x")
    assert (buffer.address, buffer.dtype_number) == (tensor.data_ptr(), number)
    new = buffer.empty_like().owner
    assert (new.dtype, new.shape, new.is_contiguous()) == (dtype, tensor.shape, True)


def test_a_parameter_needs_no_detach():
    parameter = torch.nn.Parameter(torch.ones(3))
    buffer = read_view(parameter, "x")
    assert buffer.address == parameter.data_ptr()
    assert not buffer.empty_like().owner.requires_grad


def test_strided_and_integer_tensors_are_refused():
    with pytest.raises(gqsgd.InvalidArgument, match="strides"):
        read_view(torch.zeros(2, 3).T, "x")
    with pytest.raises(gqsgd.InvalidArgument, match="int64"):
        read_view(torch.zeros(3, dtype=torch.int64), "x")


def test_a_tensor_elsewhere_is_unsupported():
    with pytest.raises(gqsgd.Unsupported, match="meta"):
        read_view(torch.zeros(3, device="meta"), "x")


@pytest.mark.parametrize(
    "x",
    [
        torch.ones(3).to_sparse(),
        torch.ones(3).to(torch.float8_e4m3fn),
        torch.ones(3, dtype=torch.complex64).conj().imag,
        torch._efficientzerotensor((3,)),
    ],
    ids=["sparse", "float8", "negated", "zeros"],
)
def test_tensors_without_plain_memory_are_refused_by_name(x):
    with pytest.raises(gqsgd.InvalidArgument, match="out is a .*hint: give a dense torch.Tensor"):
        read_view(x, "out")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64])
def test_storage_stays_resizable(dtype):
    """FSDP2 frees parameters by resizing their storage, after each forward and backward pass."""
    whole = torch.ones(8, dtype=dtype)
    for tensor in (whole, whole[2:2], torch.ones((), dtype=dtype)):
        buffer = read_view(tensor, "x")
        buffer.view[...] = 0
        assert not tensor.any()
        del buffer
    assert whole[2:].untyped_storage().resizable()
    whole.untyped_storage().resize_(0)


def test_a_view_keeps_its_memory():
    """Also where the tensor has got another one since, as by an assignment to `data`."""
    tensor = torch.ones(1000)
    buffer = read_view(tensor, "x")
    tensor.data = torch.zeros(3)
    others = [torch.full((1000,), 7.0) for _ in range(10)]
    assert buffer.view.sum() == 1000 and len(others) == 10


def test_allreduce_of_tensors_has_the_bits_of_arrays():
    inputs = list(np.random.default_rng(0).standard_normal((2, 10, 10), np.float32))
    q = gqsgd.Quantizer("paper-gl8")
    expected = gqsgd.run_local(2, lambda comm: comm.allreduce(inputs[comm.rank], q))

    def work(comm):
        tensor = torch.from_numpy(inputs[comm.rank].copy())
        new = comm.allreduce(tensor, q, step=0)
        in_place = comm.allreduce(tensor, q, step=0, out=tensor)
        assert in_place is tensor
        assert torch.equal(new, in_place)
        return new

    for result, array in zip(gqsgd.run_local(2, work), expected):
        assert isinstance(result, torch.Tensor)
        assert result.numpy().tobytes() == array.tobytes()
