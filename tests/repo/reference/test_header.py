"""The header: where its fields lie, as bytes on the wire."""

import struct

import numpy as np
from gqsgd_reference.header import Header, header_bytes, header_words, quantizer_word
from gqsgd_reference.integrity import crc32c

PAPER_GL8 = {"levels": "linear", "bits": 8, "bits_down": 8, "q": "inf", "p": "inf", "block": 0,
             "rounding": "independent", "rounding_down": "random", "rotate": "none",
             "combine": "exact", "rescale": False, "mantissa_bits": 0, "nonfinite": "poison"}


def header(**changes):
    fields = {"sequence": 7, "dtype": "bfloat16", "op": "mean", "schedule": "direct",
              "value_count": 2**40 + 3, "quantizer": PAPER_GL8, "seed": 0x0123456789ABCDEF,
              "stream_id": 11, "step": 12, "index": 13, "tag": 14, "chunk_value_count": 15,
              "value": np.float32(1)}
    return Header(**{**fields, **changes})


def test_words_by_hand():
    assert header_words(header()) == (
        0x51470002, 0, 7, 0x04010201, 3, 256, 0b0101 << 2, 0x89ABCDEF, 0x01234567, 11, 12, 13, 14,
        15, 0x3F800000, 0, 0, 0, 0, 0)


def test_bytes_are_80_and_little_endian():
    wire = header_bytes(header())
    assert len(wire) == 80 and wire[:4] == b"\x02\x00\x47\x51"
    assert struct.unpack("<20I", wire) == header_words(header())


def test_digest_and_checksum():
    words = header_words(header(digest=0x0123456789ABCDEF, checksum="crc32c"))
    assert words[:16] == header_words(header())[:16]
    assert words[16:19] == (0x89ABCDEF, 0x01234567, 1)
    assert words[19] == crc32c(struct.pack("<19I", *words[:19]))


def test_finite_norms_travel_as_float64():
    words = header_words(header(quantizer={**PAPER_GL8, "q": "2"}, value=np.float64(0.1)))
    assert words[14:16] == (0x9999999A, 0x3FB99999)


def test_every_quantizer_field_has_its_own_bits():
    changes = {"levels": ("none", 2), "bits": (32, 2), "bits_down": (32, 2), "q": ("2", 2),
               "p": ("2", 2), "block": (65536, 16), "rounding": ("nearest", 2),
               "rounding_down": ("subtractive", 1), "rotate": ("hadamard", 1),
               "combine": ("average", 2), "rescale": (True, 1), "mantissa_bits": (2, 2),
               "nonfinite": ("error", 1)}
    lowest_bit = {"levels": 0, "bits": 2, "bits_down": 4, "q": 6, "p": 8, "block": 10,
                  "rounding": 15, "rounding_down": 17, "rotate": 18, "combine": 19, "rescale": 21,
                  "mantissa_bits": 22, "nonfinite": 24}
    zeros = {**PAPER_GL8, "bits": 4, "bits_down": 4}
    assert quantizer_word(zeros) == 0
    for name, (value, number) in changes.items():
        assert quantizer_word({**zeros, name: value}) == number << lowest_bit[name]
