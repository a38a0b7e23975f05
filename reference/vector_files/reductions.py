"""Cases for reductions in code form: kinds of operand pairs, weights and decisive random words."""

from dataclasses import replace

import numpy as np
from gqsgd_reference.floats import FLT_MAX, bits
from gqsgd_reference.levels import Format
from gqsgd_reference.random import REDUCE, Call
from gqsgd_reference.reduce import reduce
from gqsgd_reference.words import pack, pack_signed

from .support.edges import DENORMAL_MIN, FLT_MIN, INFINITY, ONE, TAILS, generated
from .support.positions import CALL, HOP, ONES, POWER

DESCRIPTION = """
Operands a (from the peer) and b (own) in code form become `words` (FORMAT.md section 6).
levels; bits; combine: exact, average or sum; rank_count; combines; seed, stream_id, step, index;
rank: the rank that reduces; hop; weight_a, weight_b: ranks merged in each operand;
first_value, value_count: integers. a, b, words: hex."""

_PLAIN = Call(seed=0xFEDCBA9876543210, stream_id=1, step=7, index=5)

# Every pair of small weights, chains as in a ring, and pairs up to the largest sum, 2^20.
_WEIGHTS = (*((a, b) for a in range(1, 6) for b in range(1, 6)), (6, 1), (7, 1), (8, 8), (15, 1),
            (16, 16), (31, 1), (63, 1), (64, 64), (126, 1), (127, 129), (999, 1), (65535, 1),
            (2**19, 2**19), (2**20 - 1, 1), (1, 2**20 - 1), (699051, 349525))


def record(case, form, call, rank, hop, weights, first_value, value_count, a, b):
    """One record of reduce."""
    words = reduce(form, call, rank, hop, weights, a, b, value_count, first_value)
    return {"case": case, "levels": form.levels, "bits": form.bits, "combine": form.combine,
            "rank_count": form.rank_count, "combines": form.reduction_depth, "seed": call.seed,
            "stream_id": call.stream_id, "step": call.step, "index": call.index, "rank": rank,
            "hop": hop, "weight_a": weights[0], "weight_b": weights[1], "first_value": first_value,
            "value_count": value_count, "a": np.asarray(a, dtype=np.uint32),
            "b": np.asarray(b, dtype=np.uint32), "words": words}


def _counter_cases(form, a, b, codes_per_word):
    """Tails, and every field of the counter far from zero. a, b: words of at least 64 codes."""
    records = []
    for count in TAILS:
        part = -(-count // codes_per_word)
        keep = 32 - (part * codes_per_word - count) * form.bits
        tail_a, tail_b = a[:part].copy(), b[:part].copy()
        if count:
            tail_a[-1] &= np.uint32(2**keep - 1)
            tail_b[-1] &= np.uint32(2**keep - 1)
        records.append(record(f"tail_{count}", form, _PLAIN, 3, 1, (1, 1), 0, count,
                              tail_a, tail_b))
    count = 4 * codes_per_word
    places = {"first_value_largest": (_PLAIN, 3, 1, 2**44 - 64),
              "first_value_2_36": (_PLAIN, 3, 1, 2**36),
              "hop_4095": (_PLAIN, 3, 4095, 0),
              "hop_4096": (_PLAIN, 3, 4096, 0), "hop_10000": (_PLAIN, 3, 10000, 0),
              "step_largest": (Call(step=2**32 - 1), 3, 1, 0),
              "index_largest": (Call(index=2**16 - 1), 3, 1, 0),
              "stream_largest": (Call(stream_id=2**32 - 1), 3, 1, 0),
              "seed_largest": (Call(seed=2**64 - 1), 3, 1, 0)}
    for name, (call, rank, hop, first) in places.items():
        records.append(record(name, form, call, rank, hop, (2, 1), first, count, a[:4], b[:4]))
    most = replace(form, rank_count=2**20, reduction_depth=20)
    return [*records, record("rank_largest", most, _PLAIN, 2**20 - 1, 1, (2, 1), 0, count,
                             a[:4], b[:4])]


def linear_exact():
    """Lanes at zero, at -s and at s, merged as deep as the sum can go."""
    records = []
    for rank_count in (2, 3, 5, 127):
        form = Format("linear", 8, "exact", rank_count, rank_count - 1)
        merged, s = rank_count - 1, form.s
        lanes_a = [0, merged * s, 2 * merged * s, merged * s + 1, 2 * merged * s, 0, 1]
        lanes_b = [0, s, 2 * s, s + 1, 0, 2 * s, s]
        records.append(record(f"ranks_{rank_count}", form, _PLAIN, 1, merged, (merged, 1), 0, 7,
                              pack(lanes_a, 8), pack(lanes_b, 8)))
    form = Format("linear", 4, "exact", 3, 2)
    lanes_a, lanes_b = [0, 4, 8, 5, 8, 0, 1, 4, 8], [0, 2, 4, 3, 0, 4, 2, 2, 4]
    words = pack(lanes_a, 4), pack(lanes_b, 4)
    return [*records, record("bits_4", form, _PLAIN, 1, 2, (2, 1), 0, 9, *words)]


def _edge_lanes(top):
    """Pairs of linear lanes 0 .. 2s: ends, middle, neighbours and far pairs, both ways round."""
    s = top // 2
    pairs = [(0, 0), (top, top), (s, s), (0, 1), (s, s + 1), (s - 1, s), (top - 1, top), (0, top),
             (0, s), (s, top), (1, 2), (3, top - 2)]
    return [*pairs, *((b, a) for a, b in pairs)]


def _linear_average(bits_):
    form = Format("linear", bits_, "average", 4, 3)
    top, codes_per_word = 2 * form.s, 32 // bits_
    lane_a, lane_b = np.array(_edge_lanes(top)).T
    a, b = pack(lane_a, bits_), pack(lane_b, bits_)
    records = [
        record(f"weights_{w_a}_{w_b}", form, _PLAIN, 2, hop, (w_a, w_b), 64, len(lane_a), a, b)
        for hop, (w_a, w_b) in enumerate(_WEIGHTS, 1)]
    ordinary = [(np.arange(64) * factor % (top + 1)) for factor in (29, 71)]
    a, b = pack(ordinary[0], bits_), pack(ordinary[1], bits_)
    records += _counter_cases(form, a, b, codes_per_word)
    # The smallest and largest words decide nothing where the mean is a level, all where it is not.
    for name, e in (("zero", ONES[REDUCE][0]), ("largest", ONES[REDUCE][32]),
                    ("half", POWER[REDUCE][31]), ("below_half", ONES[REDUCE][31])):
        for w_a, w_b in ((1, 1), (2, 1), (3, 5), (2**20 - 1, 1)):
            for pair in ((0, 1), (1, 0), (top, top), (0, top)):
                case = f"{name}_word_weights_{w_a}_{w_b}_lanes_{pair[0]}_{pair[1]}"
                records.append(_at(case, form, e, (w_a, w_b), *pair))
    return records


def _at(case, form, e, weights, lane_a, lane_b):
    """The two lanes at the four elements of e's word, zero lanes before."""
    first = e - e % 32
    value_count = e - e % 4 + 4 - first
    words = []
    for lane in (lane_a, lane_b):
        lanes = np.zeros(value_count, dtype=np.int64)
        lanes[-4:] = lane
        words.append(pack(lanes, form.bits))
    return record(case, form, CALL, 0, HOP[REDUCE], weights, first, value_count, *words)


def _signed_pairs(codes):
    """All ordered pairs of signed codes, zero without a sign: (negative, code) of a and of b."""
    signed = [code * sign for code in codes for sign in ((1, -1) if code else (1,))]
    pairs = np.array([(a, b) for a in signed for b in signed])
    return [(side < 0, np.abs(side)) for side in pairs.T]


def _pairs_record(case, form, call, rank, hop, weights, codes):
    a, b = _signed_pairs(codes)
    return record(case, form, call, rank, hop, weights, 0, len(a[0]), pack_signed(*a, form.bits),
                  pack_signed(*b, form.bits))


def exponential8_sum():
    """Ends and middle of the codes, every distance, and every threshold hit exactly."""
    form = Format("exponential", 8, "sum", 4, 3)
    records = [_pairs_record(f"pairs_hop_{hop}", form, _PLAIN, 1, hop, (hop, 1),
                             (0, 1, 2, 3, 63, 64, 65, 125, 126, 127)) for hop in (1, 2, 3)]
    distance = np.arange(127)
    for sign_b in (False, True):
        for larger in (127, 64):
            d = distance[distance < larger]
            a = pack_signed(np.zeros(len(d), dtype=bool), np.full(len(d), larger), 8)
            b = pack_signed(np.full(len(d), sign_b), larger - d, 8)
            records.append(record(f"distances_{larger}_{'opposite' if sign_b else 'same'}", form,
                                  _PLAIN, 0, 2, (1, 1), 0, len(d), a, b))
    ordinary = [pack_signed(np.arange(64) % 3 == i, np.arange(64) * factor % 9 + 100, 8)
                for i, factor in enumerate((5, 7))]
    records += _counter_cases(form, *ordinary, 4)
    for k in range(32):  # R = 2^k - 1 makes the event of probability 2^(k - 32), R = 2^k does not
        for name, e in (("happens", ONES[REDUCE][k]), ("misses", POWER[REDUCE][k])):
            d = 32 - k
            records.append(_at(f"{name}_same_{d}", form, e, (1, 1), 0x80 | 100, 0x80 | (100 - d)))
            records.append(_at(f"{name}_opposite_{d}", form, e, (1, 1), 100 - d - 1, 0x80 | 100))
    for name, d in (("same", 33), ("opposite", 34)):
        sign = 0x80 if name == "opposite" else 0
        records.append(_at(f"never_{name}_{d}", form, ONES[REDUCE][0], (1, 1), 100, sign | 100 - d))
    return records


def exponential4_average():
    """All pairs of codes under every kind of weights."""
    form = Format("exponential", 4, "average", 4, 3)
    records = [_pairs_record(f"weights_{w_a}_{w_b}", form, _PLAIN, 3, hop, (w_a, w_b), range(8))
               for hop, (w_a, w_b) in enumerate(_WEIGHTS, 1)
               if w_a != w_b or w_a in (1, 8, 2**19)]
    ordinary = [pack_signed(np.arange(64) % 3 == i, np.arange(64) * factor % 8, 4)
                for i, factor in enumerate((5, 7))]
    records += _counter_cases(form, *ordinary, 8)
    for name, e in (("zero", ONES[REDUCE][0]), ("largest", ONES[REDUCE][32]),
                    ("half", POWER[REDUCE][22]), ("below_half", ONES[REDUCE][22])):
        for pair in ((0, 1), (1, 1), (7, 7), (7, 6), (15, 14), (9, 0), (7, 15), (1, 15)):
            records.append(_at(f"{name}_word_lanes_{pair[0]}_{pair[1]}", form, e, (1, 1), *pair))
    return records


def none():
    """Float32 additions that round, cancel, overflow or meet infinity; none makes a NaN."""
    form = Format("none", 32, "sum", 4, 3)
    pairs = [(0.0, 0.0), (-0.0, -0.0), (0.0, -0.0), (1, -1), (1, 2.0**-24), (1, 3 * 2.0**-25),
             (FLT_MAX, FLT_MAX), (FLT_MAX, -FLT_MAX), (INFINITY, 1), (-INFINITY, -INFINITY),
             (DENORMAL_MIN, DENORMAL_MIN), (FLT_MIN, -DENORMAL_MIN), (ONE, 0.1)]
    a, b = np.array(pairs, dtype=np.float32).T
    records = [record("edges", form, _PLAIN, 1, 1, (1, 1), 0, len(pairs), bits(a), bits(b))]
    x, y = generated(8, 0, 33), generated(8, 1, 33)
    return [*records, record("ordinary", form, _PLAIN, 1, 3, (3, 1), 32, 33, bits(x), bits(y))]


FILES = {
    "reduce_linear_exact.txt": (DESCRIPTION, linear_exact),
    "reduce_linear8_average.txt": (DESCRIPTION, lambda: _linear_average(8)),
    "reduce_linear4_average.txt": (DESCRIPTION, lambda: _linear_average(4)),
    "reduce_exponential8_sum.txt": (DESCRIPTION, exponential8_sum),
    "reduce_exponential4_average.txt": (DESCRIPTION, exponential4_average),
    "reduce_none.txt": (
        DESCRIPTION + "\nNo sum here is NaN: the pattern of one belongs to the machine.", none),
}
