"""The committed test vectors are what the reference writes, and their text can be read back."""

from pathlib import Path

import numpy as np
import pytest
from vector_files.support.record import file_text, read_records, text_of
from write_vectors import DEFAULT_FOLDER, write_vectors

TOTAL_SIZE_BYTES_MAX = 1_400_000  # they are read by every test run and stand in every clone


@pytest.fixture(scope="module")
def fresh(tmp_path_factory):
    """A folder with files written just now."""
    folder = tmp_path_factory.mktemp("vectors")
    write_vectors(folder)
    return folder


def test_committed_files_equal_fresh_ones_byte_for_byte(fresh):
    committed = {path.name: path.read_bytes() for path in DEFAULT_FOLDER.glob("*.txt")}
    written = {path.name: path.read_bytes() for path in fresh.glob("*.txt")}
    assert sorted(committed) == sorted(written)
    changed = [name for name in written if committed[name] != written[name]]
    assert changed == [], "run `python reference/write_vectors.py` if the format is meant to change"


def test_every_file_is_in_the_readme_and_the_whole_is_small(fresh):
    readme = (Path(DEFAULT_FOLDER) / "README.md").read_text(encoding="utf-8")
    assert [path.name for path in fresh.glob("*.txt") if path.name not in readme] == []
    assert sum(path.stat().st_size for path in fresh.glob("*.txt")) < TOTAL_SIZE_BYTES_MAX


def test_every_file_is_plain_records_with_unique_names(fresh):
    for path in fresh.glob("*.txt"):
        text = path.read_text(encoding="ascii")
        assert text.startswith("#") and text.endswith("\n") and "\n\n\n" not in text, path.name
        records = read_records(text)
        assert len(records) > 1, path.name
        names = [record["case"][0] for record in records]
        repeated = {name for name in names if names.count(name) > 1}
        assert repeated == set(), path.name


def test_text_of_values():
    assert text_of(2**64 - 1) == "18446744073709551615"
    assert text_of(np.float32([1, -0.0])) == "3f800000 80000000"
    assert text_of(np.uint16([1, 0x7E00])) == "0001 7e00"
    assert text_of(np.float64(1)) == "3ff0000000000000"
    assert text_of([]) == ""
    with pytest.raises(TypeError):
        text_of(np.int64(1))


def test_records_survive_writing_and_reading():
    records = [{"case": "a", "count": 3, "words": np.uint32([1, 2])},
               {"case": "b", "count": 3, "words": np.uint32([])},
               {"case": "c", "count": 4, "words": np.uint32([255])}]
    back = read_records(file_text("about", records))
    assert back == [{"case": ["a"], "count": ["3"], "words": ["00000001", "00000002"]},
                    {"case": ["b"], "count": ["3"], "words": []},
                    {"case": ["c"], "count": ["4"], "words": ["000000ff"]}]
