"""The digests in the library are what the reference gets, of all that goes together."""

import re

import write_digests


def test_committed_digests_equal_fresh_ones_byte_for_byte():
    assert write_digests.DEFAULT_FILE.read_text(encoding="ascii") == write_digests.text(), (
        "run `python reference/write_digests.py` if the format is meant to change")


def test_calls_have_digests_of_their_own():
    """Equal digests could not tell one call's result from another's."""
    digests = re.findall("0x([0-9a-f]{16})", write_digests.text())
    assert len(set(digests)) == len(digests) == len(write_digests.requests()) == 240


def test_a_wrong_bit_changes_a_digest(monkeypatch):
    number, case = 7, write_digests.requests()[7]
    right, run = write_digests.digest(number, *case), write_digests.allreduce

    def wrong(request, inputs):
        result = run(request, inputs)
        result.values[-1] ^= 1
        return result

    monkeypatch.setattr(write_digests, "allreduce", wrong)
    assert write_digests.digest(number, *case) != right
