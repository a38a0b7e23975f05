"""Bits that change on their way over a Gloo group: every one is found, no rank has a wrong result,
and all ranks know in the next call. GQ_FLIPS says how many, GQ_FIRST_FLIP which."""

import os
import random

import gqsgd.torch
import pytest
import torch
import torch.distributed as dist
import torch_group
from gqsgd.torch.group_transport import GroupTransport

FLIPS = int(os.environ.get("GQ_FLIPS", "6"))
FIRST = int(os.environ.get("GQ_FIRST_FLIP", "0"))
OPTIONS = {"timeout_ms": 60000, "chunk_value_count": 2048}
HEADER_BYTES = 80
CASES = [("blocks-8", "direct"), ("paper-gl8", "ring"), ("none", "direct"),
         ("paper-ge4,block=64", "tree")]


class Wire:
    """In the place of GroupTransport.send: changes one bit of one message of words."""

    def __init__(self, send):
        self.send, self.before, self.bit = send, None, 0

    def __call__(self, transport, peer, data):
        if self.before is not None and len(data) != HEADER_BYTES:
            if self.before == 0:
                data = bytearray(data)
                bit = self.bit % (8 * len(data))
                data[bit // 8] ^= 1 << bit % 8
            self.before -= 1
        return self.send(transport, peer, memoryview(data))


def call(comm, case, x):
    spec, schedule = case
    return comm.allreduce(x, gqsgd.Quantizer(spec), schedule=schedule).tolist()


def flips(first, count):
    rank, size = dist.get_rank(), dist.get_world_size()
    x = torch.sin(torch.arange(6000, dtype=torch.float32) * (rank + 1))
    wire = Wire(GroupTransport.send)
    GroupTransport.send = lambda transport, peer, data: wire(transport, peer, data)
    try:
        clean = []
        for case in CASES:
            with gqsgd.torch.connect(None, "group", **OPTIONS) as comm:
                clean.append(call(comm, case, x))
        found = []
        for flip in range(first, first + count):
            draw = random.Random(flip)
            case = flip % len(CASES)
            sender, before, bit = draw.randrange(size), draw.randrange(3), draw.randrange(1 << 30)
            wire.before, wire.bit = before if rank == sender else None, bit
            with gqsgd.torch.connect(None, "group", **OPTIONS) as comm:
                sentence = ""
                try:
                    assert call(comm, CASES[case], x) == clean[case], f"flip {flip}"
                except gqsgd.Integrity as failure:
                    sentence = str(failure)
                dist.barrier()
                with pytest.raises(gqsgd.Integrity):
                    call(comm, CASES[case], x)
                dist.barrier()  # closing ends the group
            found.append((sender, sentence))
        return found
    finally:
        GroupTransport.send = wire.send


def test_a_flipped_bit_is_found_and_told(torch_groups):
    timeout_s = torch_group.TIMEOUT_S + FLIPS
    results = torch_groups(2).run(flips, FIRST, FLIPS, timeout_s=timeout_s)
    for seen in zip(*results, strict=True):
        sender = seen[0][0]
        named = [text for _, text in seen if f"of rank {sender}" in text and "changed on" in text]
        assert len(named) == 1, seen
