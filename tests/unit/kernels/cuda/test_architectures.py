"""Kernels compile for every architecture that is named for them, without spills, and a library of
all of them stays small."""

import subprocess

import pytest

ARCHITECTURES = ("80", "90", "100", "120")
LIBRARY_BYTES_MAX = 30e6


def for_the_others(words, target):
    """The command for the architectures that the build leaves out, and PTX of the last."""
    kept, skipped = [], False
    for word in words:
        if skipped or word == "-MD" or word.startswith("-gencode="):
            skipped = False
        elif word in ("-MT", "-MF", "-o"):
            skipped = True
        else:
            kept.append(word)
    left_out = [a for a in ARCHITECTURES if f"code=sm_{a}" not in " ".join(words)]
    targets = [f"-gencode=arch=compute_{a},code=sm_{a}" for a in left_out]
    last = ARCHITECTURES[-1]
    return [*kept, *targets, f"-gencode=arch=compute_{last},code=compute_{last}", "-o", str(target)]


@pytest.mark.timeout(1800)  # ten minutes of one processor, beside other tests
def test_kernels_are_built_for_all_architectures(commands, build_directory, tmp_path, library):
    objects = []
    for name, words in commands.items():
        objects.append(tmp_path / f"{name}.o")
        result = subprocess.run(for_the_others(words, objects[-1]), cwd=build_directory,
                                capture_output=True, text=True)
        assert result.returncode == 0, f"{name}: {result.stdout}{result.stderr}"
    kernels = sum(made.stat().st_size for made in objects)
    assert kernels + library.stat().st_size < LIBRARY_BYTES_MAX
