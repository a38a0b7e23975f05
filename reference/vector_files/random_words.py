"""Cases for Philox and for the random word of an element."""

import numpy as np
from gqsgd_reference.random import OUTPUT, QUANTIZE, REDUCE, REENCODE, Call, philox4x32
from gqsgd_reference.random import random_words as words_of

from .support.edges import TAILS
from .support.positions import CALL, HOP, ONES, POWER

PHILOX = """
The block cipher: Philox4x32-10.
counter: 4 words in hex; key: 2 words in hex; output: 4 words in hex.
The first three are the known answers that Random123 publishes; the others move one input bit."""

RANDOM = """
Random words R(e) of elements first_value .. first_value + value_count - 1 (FORMAT.md section 2).
seed, stream_id, step, index, draw, rank, hop, first_value, value_count: integers.
words: R(e) in hex.
Cases power_k and ones_k hold 2^k and 2^k - 1 among their words: the edges of rounding rules."""

_PUBLISHED = (
    ("zeros", (0, 0, 0, 0), (0, 0)),
    ("ones", (0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2),
    ("pi", (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344), (0xA4093822, 0x299F31D0)),
)


def _cipher(case, counter, key):
    return {"case": case, "counter": np.array(counter, dtype=np.uint32),
            "key": np.array(key, dtype=np.uint32),
            "output": philox4x32(counter, key).astype(np.uint32)}


def philox():
    """Published answers, then each counter and key word with one bit set at its top or bottom."""
    records = [_cipher(*known) for known in _PUBLISHED]
    for place in range(6):
        for bit in (0, 31):
            words = [0] * 6
            words[place] = 1 << bit
            name = f"{'counter' if place < 4 else 'key'}_{place % 4}_bit_{bit}"
            records.append(_cipher(name, tuple(words[:4]), tuple(words[4:])))
    return records


def record(case, call, draw, rank, hop, first_value, value_count):
    """One record of random words."""
    words = words_of(call, draw, rank, hop, first_value, value_count).astype(np.uint32)
    return {"case": case, "seed": call.seed, "stream_id": call.stream_id, "step": call.step,
            "index": call.index, "draw": draw, "rank": rank, "hop": hop,
            "first_value": first_value, "value_count": value_count, "words": words}


def random():
    """Tails, every field of key and counter at its largest, and words at their edges."""
    plain = Call(seed=0x0123456789ABCDEF)
    records = [record(f"tail_{count}", plain, QUANTIZE, 0, 0, 0, count) for count in TAILS]
    records += [record(f"draw_{draw}", plain, draw, 2, 1, 32, 8)
                for draw in (QUANTIZE, REDUCE, REENCODE, OUTPUT)]
    calls = {
        "seed_0": Call(), "seed_largest": Call(seed=2**64 - 1), "seed_high_half": Call(seed=2**32),
        "stream_1": Call(stream_id=1), "stream_largest": Call(seed=5, stream_id=2**32 - 1),
        "step_largest": Call(step=2**32 - 1), "index_1": Call(index=1),
        "index_largest": Call(index=2**16 - 1)}
    records += [record(case, call, QUANTIZE, 1, 0, 0, 5) for case, call in calls.items()]
    for rank, hop in ((2**20 - 1, 0), (0, 4095), (0, 4096), (2**20 - 1, 4097)):
        records.append(record(f"rank_{rank}_hop_{hop}", plain, REDUCE, rank, hop, 0, 5))
    for first in (2**36 - 32, 2**36, 2**37 + 64, 2**44 - 64):
        records.append(record(f"first_value_{first}", plain, QUANTIZE, 1, 0, first, 64))
    for name, places in (("power", POWER[REDUCE][:8]), ("ones", ONES[REDUCE])):
        for k, e in enumerate(places):
            records.append(record(f"{name}_{k}", CALL, REDUCE, 0, HOP[REDUCE], e - e % 4, 4))
    return records


FILES = {"philox.txt": (PHILOX, philox), "random.txt": (RANDOM, random)}
