"""Checksums of messages and digests of results (FORMAT.md sections 17 and 18)."""

import struct

import numpy as np

_POLYNOMIAL = 0x82F63B78
_WORD_KEY, _SCALE_KEY = 0x9E3779B1, 0x85EBCA77


def crc32c(data, before=0):
    """CRC-32C of bytes, bit by bit, behind those whose CRC is `before`."""
    crc = before ^ 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (_POLYNOMIAL if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def trailer_words(message, sequence, number, mark=0):
    """The two words behind a message: `number` from one rank to another in call `sequence`."""
    words = b"" if mark else message
    return crc32c(words + struct.pack("<3I", sequence % 2**32, number, mark)), mark


def _sum(first_place, numbers, key):
    places = range(first_place, first_place + len(numbers))
    return sum(int(number) * ((2 * place + 1) * key % 2**32)
               for place, number in zip(places, numbers, strict=True)) % 2**64


def digest_of_words(first_place, words):
    return _sum(first_place, words, _WORD_KEY)


def digest_of_scales(first_place, codes):
    """Of codes of 16 bits, one for each block."""
    return _sum(first_place, codes, _SCALE_KEY)


def digest_of_norm(place, norm):
    """Of the float32 norm of a call, or of segment `place`."""
    pattern = int(np.float32(norm).view(np.uint32)) if np.isfinite(norm) else 0x7FC00000
    return _sum(place, [pattern], _SCALE_KEY)
