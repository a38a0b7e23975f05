"""Stages on arrays of PyTorch, CuPy and JAX on this machine's GPU: the bits of the host."""

import gqsgd
import numpy as np
import pytest

COUNT = 100_000
VALUES = np.random.default_rng(3).standard_normal(COUNT).astype(np.float32)


@pytest.fixture
def torch():
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("torch finds no CUDA device")
    return torch


@pytest.fixture
def cupy():
    cupy = pytest.importorskip("cupy")
    try:
        cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        pytest.skip(f"CuPy finds no CUDA device: {error}")
    return cupy


def chain(x, q, **stream):
    """The stages of a direct allreduce of one rank."""
    site = gqsgd.Site()
    norms = gqsgd.norm(x, q, site=site, **stream)
    words = gqsgd.quantize(x, q, norms, site=site, **stream)
    total, scales = gqsgd.reduce_many([words], q, norms, site=site, count=COUNT, **stream)
    adaptive = {"norms": norms} if "width=adaptive" in q.spec else {}
    return gqsgd.dequantize(total, q, scales, COUNT, site=site, **adaptive, **stream)


@pytest.mark.parametrize("preset",
                         ["blocks-8", "paper-ge8", "paper-gl4", "rotated-4-8", "adaptive-4"])
def test_tensors_of_torch_have_the_bits_of_the_host(torch, preset):
    q = gqsgd.Quantizer(preset)
    there = chain(torch.from_numpy(VALUES).cuda(), q)
    assert isinstance(there, torch.Tensor) and there.is_cuda
    np.testing.assert_array_equal(there.cpu().numpy(), chain(VALUES, q))


def test_torch_streams_are_followed(torch):
    q, stream = gqsgd.Quantizer(), torch.cuda.Stream()
    with torch.cuda.stream(stream):
        x = torch.from_numpy(VALUES).cuda(non_blocking=True)
        by_default, by_name = chain(x, q), chain(x, q, stream=stream)
    stream.synchronize()
    for there in (by_default, by_name):
        np.testing.assert_array_equal(there.cpu().numpy(), chain(VALUES, q))


@pytest.mark.parametrize("preset", ["blocks-8", "paper-gl8,norm=2:2"])
def test_arrays_of_cupy_have_the_bits_of_the_host(cupy, preset):
    q = gqsgd.Quantizer(preset)
    there = chain(cupy.asarray(VALUES), q)
    np.testing.assert_array_equal(cupy.asnumpy(there), chain(VALUES, q))


def test_cupy_streams_are_followed(cupy):
    q = gqsgd.Quantizer()
    with cupy.cuda.Stream(non_blocking=True) as stream:
        there = chain(cupy.asarray(VALUES), q, stream=stream)
        stream.synchronize()
        np.testing.assert_array_equal(cupy.asnumpy(there), chain(VALUES, q))


def test_arrays_of_jax_are_read_in_place(cupy):
    jax = pytest.importorskip("jax")
    if jax.default_backend() != "gpu":
        pytest.skip("JAX finds no GPU")
    x, q = jax.device_put(VALUES), gqsgd.Quantizer()
    norms = gqsgd.norm(cupy.from_dlpack(x), q, site=gqsgd.Site())
    np.testing.assert_array_equal(cupy.asnumpy(norms), gqsgd.norm(VALUES, q, site=gqsgd.Site()))


def test_host_memory_is_refused_with_a_stream(torch):
    q = gqsgd.Quantizer()
    with pytest.raises(gqsgd.InvalidArgument, match="host memory"):
        gqsgd.norm(VALUES, q, site=gqsgd.Site(), stream=torch.cuda.current_stream())
