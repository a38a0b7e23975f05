"""Kernels are built for every architecture that is named for them, and the library stays small."""

import pytest

ARCHITECTURES = ("80", "90", "100", "120")
LIBRARY_BYTES_MAX = 30e6


def code_of(words):
    """What a compile command makes: sm_N for machine code, compute_N for PTX."""
    return [word.partition(",code=")[2] for word in words if word.startswith("-gencode=")]


def test_the_library_has_all_architectures_and_stays_small(commands, library):
    expected = [*(f"sm_{a}" for a in ARCHITECTURES), f"compute_{ARCHITECTURES[-1]}"]
    if all(len(code_of(words)) < len(expected) for words in commands.values()):
        pytest.skip("built for some architectures alone (-Dgpu_archs)")
    assert {name: code_of(words) for name, words in commands.items()} == dict.fromkeys(commands,
                                                                                     expected)
    assert library.stat().st_size < LIBRARY_BYTES_MAX
