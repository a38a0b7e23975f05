"""What a rank refuses of its own arguments: the others get the reason instead of waiting."""

import gqsgd
import numpy as np
import pytest


@pytest.mark.parametrize(
    ("refused", "error", "reason"),
    [
        ({"op": "median"}, gqsgd.InvalidArgument, "INVALID_ARGUMENT"),
        ({"q": "blocks-8"}, TypeError, "INVALID_ARGUMENT"),
        ({"step": -1}, gqsgd.InvalidArgument, "INVALID_ARGUMENT"),
    ],
)
@pytest.mark.parametrize("call", ["allreduce", "allreduce_many", "reduce_scatter", "allgather"])
def test_other_ranks_get_the_reason_and_the_counter_stays_equal(call, refused, error, reason):
    if call == "allgather" and "op" in refused:
        refused = {"counts": [1]}

    def work(comm):
        x = np.ones(8, np.float32)
        arguments = {"q": gqsgd.Quantizer("none")}
        arguments |= {"step": 3} if "step" in refused else {}
        arguments |= refused if comm.rank == 1 else {}
        with pytest.raises(error if comm.rank == 1 else gqsgd.RemoteError) as caught:
            getattr(comm, call)([x] if call == "allreduce_many" else x, **arguments)
        if comm.rank != 1:
            assert "rank 1" in str(caught.value) and reason in str(caught.value)
        return comm.counter, comm.allreduce(x, gqsgd.Quantizer("none")).tolist()

    counter = 0 if "step" in refused else 1
    assert gqsgd.run_local(3, work) == [(counter, [1.0] * 8)] * 3


@pytest.mark.parametrize(("key", "sentence"), [
    ({"step": -1}, "step is -1; accepted are 0 to 4294967295"),
    ({"step": 2**64}, "step is 18446744073709551616; accepted are 0 to 4294967295"),
    ({"step": 0, "index": -1}, "index is -1; accepted are 0 to 65535"),
])
def test_what_a_random_key_may_be_is_told(key, sentence):
    [comm] = gqsgd.Communicator.local(1)
    with comm, pytest.raises(gqsgd.InvalidArgument, match=sentence):
        comm.allreduce(np.ones(8, np.float32), gqsgd.Quantizer(), **key)


def test_a_refused_measurement_uses_no_step():
    def work(comm):
        x = np.ones(8, np.float32)
        with pytest.raises(gqsgd.Unsupported if comm.rank == 1 else gqsgd.RemoteError) as caught:
            comm.measured_error(OnADevice() if comm.rank == 1 else x, gqsgd.Quantizer())
        if comm.rank == 0:
            assert "rank 1" in str(caught.value) and "UNSUPPORTED" in str(caught.value)
        return comm.counter, comm.measured_error(x, gqsgd.Quantizer("none"))

    assert gqsgd.run_local(2, work) == [(0, 0.0)] * 2


class OnADevice:
    """An array that this package refuses with another status."""

    @property
    def __array_interface__(self):
        raise gqsgd.Unsupported("x is elsewhere")
