"""Writes the test vectors of tests/vectors: `python reference/write_vectors.py [folder]`."""

import sys
from pathlib import Path

from vector_files import (allreduces, block_decodes, block_norms, block_quantizes,
                           block_sums, conversions, decodes, headers, hierarchies,
                           integrity, narrow_codes,
                           native, norms, presets, quantizes,
                           random_words, reductions, rotations, schedule_lists, segments, sparse,
                           thresholds, wide_sums)
from vector_files.groups import adaptive, rice
from vector_files.support.record import file_text

SUBJECTS = (random_words, conversions, norms, quantizes, reductions, wide_sums, decodes,
            schedule_lists, allreduces, headers, block_norms, thresholds, rotations,
            block_quantizes, block_sums, block_decodes, presets, sparse, segments, native,
            hierarchies, narrow_codes, adaptive, rice, integrity)
DEFAULT_FOLDER = Path(__file__).resolve().parent.parent / "tests" / "vectors"


def write_vectors(folder):
    """Writes every file into `folder`, which exists; returns their names."""
    names = []
    for subject in SUBJECTS:
        for name, (description, records) in subject.FILES.items():
            text = file_text(description, records())
            (Path(folder) / name).write_text(text, encoding="ascii", newline="\n")
            names.append(name)
    return names


if __name__ == "__main__":
    write_vectors(sys.argv[1] if len(sys.argv) > 1 else DEFAULT_FOLDER)
