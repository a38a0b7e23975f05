"""Groups between hosts, whose ranks here are processes of one: what "auto" takes, and that all
ranks take the same, whatever one of them lacks."""

import logging

import gqsgd.torch
import pytest
import torch
import torch.distributed as dist
from gqsgd.network import host, ucx
from gqsgd.torch import groups

LACKING = 1


def on_own_host():
    """Makes this rank seem to be on a host of its own."""
    host.identity = lambda: ["host", f"boot {dist.get_rank()}", 0, 0]


def connected_by_auto():
    identity = host.identity
    on_own_host()
    try:
        with gqsgd.torch.connect(None, timeout_ms=60000) as comm:
            mean = comm.allreduce(torch.full((5,), float(comm.rank)), gqsgd.Quantizer("none"))
            return comm.transport, mean.tolist()
    finally:
        host.identity = identity


def test_auto_takes_ucx_between_hosts(torch_groups):
    assert torch_groups(3).run(connected_by_auto) == [("network", [1.0] * 5)] * 3


class Lines(logging.Handler):
    """Keeps the lines of a logger."""

    def __init__(self):
        super().__init__()
        self.lines = []

    def emit(self, record):
        self.lines.append((record.levelname, record.getMessage()))


def without_ucx(transport):
    """The lacking rank finds a file that is not there; the result, and what was logged."""
    with_path, identity, lines = ucx.with_path, host.identity, Lines()
    on_own_host()
    logging.getLogger("gqsgd").addHandler(lines)
    if dist.get_rank() == LACKING:
        ucx.with_path = lambda options: {**options, "ucx": "/nowhere/libucp.so.0"}
    try:
        with gqsgd.torch.connect(None, transport, timeout_ms=60000) as comm:
            mean = comm.allreduce(torch.full((5,), float(comm.rank)), gqsgd.Quantizer("none"))
            return comm.transport, mean.tolist(), lines.lines
    except gqsgd.GqsgdError as error:
        return error.name, str(error), lines.lines
    finally:
        ucx.with_path, host.identity = with_path, identity
        logging.getLogger("gqsgd").removeHandler(lines)


def test_a_rank_without_ucx_takes_all_to_gloo_with_one_warning(torch_groups):
    results = torch_groups(3).run(without_ucx, "auto")
    assert [result[:2] for result in results] == [("group", [1.0] * 5)] * 3
    ((level, line),) = results[0][2]
    assert level == "WARNING" and f"rank {LACKING}: " in line and "/nowhere/libucp" in line
    assert results[1][2] == results[2][2] == []


def test_where_ucx_is_asked_for_that_is_an_error_on_all(torch_groups):
    for name, sentence, lines in torch_groups(3).run(without_ucx, "network"):
        assert name == "UNSUPPORTED" and f"rank {LACKING}: " in sentence
        assert "/nowhere/libucp" in sentence
        assert lines == []


def one_cannot_connect():
    """An interface that only one rank does not have."""
    interface = "no-such-if" if dist.get_rank() == LACKING else "lo"
    with pytest.raises(gqsgd.InvalidArgument) as caught:
        gqsgd.torch.connect(None, "network", interface=interface, timeout_ms=20000)
    return str(caught.value)


def test_what_fails_on_one_rank_fails_on_all(torch_groups):
    for sentence in torch_groups(3).run(one_cannot_connect):
        assert "no-such-if" in sentence and f"rank {LACKING}" in sentence


def sharded_and_as_operators():
    """What is not DDP's hook goes the same way."""
    identity = host.identity
    on_own_host()
    try:
        group = dist.new_group([0, 1])
        reduce_scatter = gqsgd.torch.ReduceScatter("none", transport="network", timeout_ms=60000)
        own, values = torch.empty(3), torch.arange(6.0) + dist.get_rank()
        reduce_scatter(own, values, group, dist.ReduceOp.SUM)
        all_reduce, shard = gqsgd.torch.AllReduce("none", group, timeout_ms=60000), values.clone()
        all_reduce(shard)
        mean = gqsgd.torch.allreduce(values, "none", group)
        assert torch.equal(shard, mean)
        transports = [comm.transport for each in (reduce_scatter, all_reduce)
                      for comm in each._communicators.values()]
        transports.append(groups.shared(group).transport)
        reduce_scatter.close(), all_reduce.close()
        return own.tolist(), mean.tolist(), transports
    finally:
        host.identity = identity


def test_fsdp_and_operators_go_over_ucx_too(torch_groups):
    mean = [k + 0.5 for k in range(6)]
    assert torch_groups(2).run(sharded_and_as_operators) == [
        ([1.0, 3.0, 5.0], mean, ["network"] * 3), ([7.0, 9.0, 11.0], mean, ["network"] * 3)]


def test_the_store_of_a_server_is_where_rank_0_is_looked_for():
    server = dist.TCPStore("127.0.0.1", 0, is_master=True)
    nested = dist.PrefixStore("a", dist.PrefixStore("b", server))
    assert groups._id_options(nested, {"address": "192.0.2.1"}) == {"address": "192.0.2.1"}
    assert "address" not in groups._id_options(nested, {})  # the loopback is no address for others


def test_the_interface_of_gloo_is_that_of_rank_0(monkeypatch):
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "eth7,eth8")
    assert groups._id_options(dist.HashStore(), {}) == {"interface": "eth7"}
    assert groups._id_options(dist.HashStore(), {"interface": "ib0"}) == {"interface": "ib0"}
