"""An emulation of the fp8 allreduce of torchft 0.2.0 in PyTorch on the CPU, written from its rules:
torchft's own needs Triton and a GPU, and without Triton it sends floats.

Each row of a matrix has a float32 scale of its own, 448 over its largest value, then codes e4m3 and
padding to 4 bytes; a vector is a matrix with one value per row. Rows are divided among the ranks,
which add what is decoded in float32 and encode the sums in the same way.
"""

import torch

_LARGEST = 448.0
_SCALE_BYTES = 4


def packed(tensors, rank_count):
    """(rank_count, bytes) uint8: what goes to each rank."""
    parts = []
    for tensor in tensors:
        rows = _rows_of(tensor)
        filled = torch.zeros(_rows_per_rank(rows, rank_count) * rank_count, rows.shape[1])
        filled[:len(rows)] = rows
        parts.append(_encoded(filled).view(rank_count, -1))
    return torch.cat(parts, dim=1)


def added(shards, tensors, rank):
    """(bytes) uint8 that `rank` returns to all, of what came from each rank (rank_count, bytes)."""
    rank_count, parts = len(shards), []
    for piece, rows in _pieces(shards, tensors, rank_count):
        total = torch.zeros(piece.shape[1], rows.shape[1])
        for number in range(rank_count):
            total += _decoded(piece[(rank + number) % rank_count], rows.shape[1])
        parts.append(_encoded(total).view(-1))
    return torch.cat(parts)


def unpacked(shards, tensors):
    """Writes the sums, (rank_count, bytes) uint8 from all ranks, into `tensors`."""
    for (piece, rows), tensor in zip(_pieces(shards, tensors, len(shards)), tensors, strict=True):
        values = _decoded(piece.flatten(0, 1), rows.shape[1])[:len(rows)]
        tensor.copy_(values.view_as(tensor))


def simulated(of_ranks):
    """The sums of lists of tensors, one list per rank, in new tensors."""
    rank_count, tensors = len(of_ranks), of_ranks[0]
    sent = torch.stack([packed(own, rank_count) for own in of_ranks])  # (from, to, bytes)
    back = torch.stack([added(sent[:, rank], tensors, rank) for rank in range(rank_count)])
    sums = [torch.empty_like(tensor) for tensor in tensors]
    unpacked(back, sums)
    return sums


def exchanged(tensors, rank, rank_count, all_to_all, all_gather):
    """Replaces `tensors` by their sums. all_to_all(recv, send) and all_gather(recv, send) are
    collectives of bytes (ranks, bytes); what all_gather sends is (1, bytes)."""
    send = packed(tensors, rank_count)
    recv = torch.empty_like(send)
    all_to_all(recv, send)
    back = torch.empty_like(send)
    all_gather(back, added(recv, tensors, rank)[None])
    unpacked(back, tensors)


def _rows_of(tensor):
    if tensor.dim() > 2:
        raise ValueError(f"a tensor has shape {tuple(tensor.shape)}; torchft's fp8 takes at most 2 "
                         "dimensions")
    return tensor if tensor.dim() == 2 else tensor.reshape(-1, 1)


def _rows_per_rank(rows, rank_count):
    return -(-len(rows) // rank_count)


def _row_bytes(rows):
    return _SCALE_BYTES + -(-rows.shape[1] // _SCALE_BYTES) * _SCALE_BYTES


def _pieces(shards, tensors, rank_count):
    """(codes of a tensor (ranks, rows, bytes), its rows) of each tensor."""
    place = 0
    for tensor in tensors:
        rows = _rows_of(tensor)
        of_rank = _rows_per_rank(rows, rank_count)
        size_bytes = of_rank * _row_bytes(rows)
        piece = shards[:, place:place + size_bytes]
        yield piece.reshape(len(shards), of_rank, _row_bytes(rows)), rows
        place += size_bytes


def _encoded(rows):
    """(rows, bytes) uint8 of (rows, values) float32."""
    scales = _LARGEST / rows.abs().amax(dim=1)
    scales[scales.isinf()] = 1.0
    codes = (rows * scales[:, None]).to(torch.float8_e4m3fn)
    found = torch.zeros(len(rows), _row_bytes(rows), dtype=torch.uint8)
    found[:, :_SCALE_BYTES] = scales[:, None].contiguous().view(torch.uint8)
    found[:, _SCALE_BYTES:_SCALE_BYTES + rows.shape[1]] = codes.view(torch.uint8)
    return found


def _decoded(rows, column_count):
    """(rows, values) float32 of (rows, bytes) uint8."""
    scales = rows[:, :_SCALE_BYTES].contiguous().view(torch.float32)
    codes = rows[:, _SCALE_BYTES:_SCALE_BYTES + column_count].contiguous()
    return codes.view(torch.float8_e4m3fn).to(torch.float32) / scales
