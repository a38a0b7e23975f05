"""Cases for checksums of messages and digests of results."""

import numpy as np
from gqsgd_reference.integrity import (crc32c, digest_of_norm, digest_of_scales, digest_of_words,
                                       trailer_words)

DESCRIPTION = """
Trailers of messages and digests of results (FORMAT.md sections 17 and 18).
A case with number: words, hex, are the message; sequence, number and mark are those of section 17;
checksum: hex.
A case with place: words, hex, begin at this place, and so do scales, hex of 16 bits; norm is a
float32 at this place; digest: the sum of theirs, in decimal."""

_LENGTHS = (1, 2, 7, 8, 9, 64, 201)


def _words(salt, count):
    return np.array([crc32c(bytes((salt, k))) for k in range(count)], dtype=np.uint32)


def trailers():
    records = []
    for k, length in enumerate(_LENGTHS):
        words = _words(k, length)
        sequence, number = 1 + k * 0x10000001, 3 * k
        mark = 0 if k != 3 else 5
        checksum, _ = trailer_words(words.tobytes(), sequence, number, mark)
        records.append({"case": f"trailer_{length}", "sequence": sequence, "number": number,
                        "mark": mark, "words": words,
                        "checksum": np.array([checksum], dtype=np.uint32)})
    return records


def digests():
    records = []
    for k, length in enumerate(_LENGTHS):
        words, scales = _words(100 + k, length), _words(200 + k, k + 1).astype(np.uint16)
        place = (0, 3, 2**31 - 2, 2**33 + 5)[k % 4]
        norm = np.float32((0.1, np.inf, 3.5, 0.0)[k % 4])
        digest = (digest_of_words(place, words) + digest_of_scales(place, scales)
                  + digest_of_norm(place, norm)) % 2**64
        records.append({"case": f"digest_{length}", "place": place, "words": words,
                        "scales": scales, "norm": norm, "digest": digest})
    return records


FILES = {"integrity.txt": (DESCRIPTION, lambda: trailers() + digests())}
