"""Checksums and digests: known numbers, and what changes them."""

import struct

import numpy as np
import pytest
from gqsgd_reference.integrity import (crc32c, digest_of_norm, digest_of_scales, digest_of_words,
                                       trailer_words)

RNG = np.random.default_rng(5)


@pytest.mark.parametrize("data, expected", [
    (b"123456789", 0xE3069283), (bytes(32), 0x8A9136AA), (b"\xff" * 32, 0x62A8AB43),
    (bytes(range(32)), 0x46DD794E), (b"", 0)])
def test_numbers_of_rfc_3720(data, expected):
    assert crc32c(data) == expected


def test_pieces_follow_each_other():
    assert crc32c(b"56789", crc32c(b"1234")) == crc32c(b"123456789")


def test_every_bit_of_a_message_and_its_place_count():
    message = bytes(RNG.integers(0, 256, 40, dtype=np.uint8))
    checksum, mark = trailer_words(message, 7, 2)
    assert mark == 0
    for bit in range(8 * len(message)):
        changed = bytearray(message)
        changed[bit // 8] ^= 1 << bit % 8
        assert trailer_words(bytes(changed), 7, 2)[0] != checksum
    assert trailer_words(message, 8, 2)[0] != checksum
    assert trailer_words(message, 7, 3)[0] != checksum


def test_a_mark_has_no_words():
    expected = crc32c(struct.pack("<3I", 7, 2, 4)), 4
    assert trailer_words(b"something", 7, 2, mark=4) == expected


def test_digests_are_sums_of_pieces():
    words = RNG.integers(0, 2**32, 50, dtype=np.uint64)
    whole = digest_of_words(10, words)
    assert whole == (digest_of_words(10, words[:20]) + digest_of_words(30, words[20:])) % 2**64
    for bit in range(64):
        changed = words.copy()
        changed[bit % 50] ^= np.uint64(1 << bit % 32)
        assert digest_of_words(10, changed) != whole


def test_norms_take_the_places_of_scales():
    assert digest_of_norm(3, 1.5) == digest_of_scales(3, [0x3FC00000])
    not_finite = digest_of_scales(0, [0x7FC00000])
    assert digest_of_norm(0, np.inf) == digest_of_norm(0, np.nan) == not_finite
