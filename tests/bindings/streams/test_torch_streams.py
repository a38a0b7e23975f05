"""gqsgd.torch between GPUs: communicators, and operators on streams; on the device of threads."""

import gqsgd
import numpy as np
import pytest

pytest.importorskip("torch", reason="torch may not be there for the CPU")

import gqsgd.torch  # noqa: E402
import torch  # noqa: E402
import torch_double as double  # noqa: E402
from gqsgd.torch import groups  # noqa: E402


def values(rank):
    return np.random.default_rng(rank).standard_normal(6000).astype(np.float32)


def test_operators_use_the_current_stream_and_one_communicator(monkeypatch):
    def work(rank):
        x = double.tensor(values(rank))
        mean = gqsgd.torch.allreduce(x, "none")
        gqsgd.torch.allreduce_(x, "none", op="sum")
        stream = double.devices.cuda.current_stream(None)
        stream.synchronize()
        comm = groups.shared(None, double.GPU)
        calls = comm.stats()["calls"]
        comm.close()
        return mean.numpy().copy(), x.numpy().copy(), calls

    exact = sum(values(rank).astype(np.float64) for rank in range(2))
    for mean, total, calls in double.use(monkeypatch, 2, work)[1]:
        np.testing.assert_allclose(total, exact, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(mean, exact / 2, rtol=1e-5, atol=1e-6)
        assert calls == 2


def test_a_tensor_that_is_negated_when_it_is_read_is_refused(monkeypatch):
    """Its memory has the values with the other sign."""
    def work(rank):
        [comm], stream = gqsgd.Communicator.local(1), double.devices.cuda.current_stream(None)
        x = torch._neg_view(double.tensor(values(rank)))
        with comm, pytest.raises(gqsgd.InvalidArgument, match="x is negated.*resolve_neg"):
            comm.allreduce(x, gqsgd.Quantizer("none"), stream=stream)

    double.use(monkeypatch, 1, work)


def test_without_nccl_every_rank_is_reported_why(monkeypatch):
    def work(rank):
        with pytest.raises(gqsgd.Unsupported, match="/nowhere/libnccl.so"):
            groups.connect(None, device=double.GPU, nccl="/nowhere/libnccl.so", timeout_ms=20000)

    double.use(monkeypatch, 2, work)


@pytest.mark.parametrize(("transports", "places", "kind", "said"), [
    (("nccl", "auto"), ("cuda", "cuda"), gqsgd.Mismatch, "rank 0 has 'nccl', rank 1 has 'auto'"),
    (("auto", "auto"), ("cuda", "cpu"), gqsgd.Mismatch, "rank 0 has 'cuda', rank 1 has 'cpu'"),
    (("network", "network"), ("cuda", "cuda"), gqsgd.InvalidArgument,
     "'network' and tensors are on cuda"),
    (("nccl", "nccl"), ("cpu", "cpu"), gqsgd.InvalidArgument, "'nccl' and tensors are on cpu"),
])
def test_transports_and_devices_fit_on_all_ranks(monkeypatch, transports, places, kind, said):
    def work(rank):
        with pytest.raises(kind, match=said):
            groups.connect(None, transports[rank], device=places[rank], timeout_ms=20000)

    double.use(monkeypatch, 2, work)
