"""Philox against published answers, and the word of an element against FORMAT.md section 2."""

import numpy as np
import pytest
from gqsgd_reference.random import (OUTPUT, QUANTIZE, REDUCE, REENCODE, Call, counters, key,
                                    philox4x32, random_words)
from vector_files.support.positions import CALL, HOP, ONES, POWER

# Test vectors of Random123 for Philox4x32-10 (kat_vectors): counter, key, output.
PUBLISHED = (
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    ((0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344), (0xA4093822, 0x299F31D0),
     (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1)),
)


@pytest.mark.parametrize("counter_words, key_words, output", PUBLISHED)
def test_philox_gives_the_published_answers(counter_words, key_words, output):
    assert tuple(int(word) for word in philox4x32(counter_words, key_words)) == output


def test_key_mixes_seed_and_stream():
    assert key(Call(seed=0x0123456789ABCDEF)) == (0x89ABCDEF, 0x01234567)
    assert key(Call(seed=0, stream_id=1)) == (0x7F4A7C15, 0x9E3779B9)
    assert key(Call(seed=0, stream_id=2)) == (0xFE94F82A, 0x3C6EF372)


def test_counter_fields_lie_where_the_page_puts_them():
    call = Call(step=0xAABBCCDD, index=0x1234)
    assert counters(call, 3, 0xABCDE, 0x1FED, [0x5600000001]).tolist() == [
        [0x00000001, 0x12340356, 0xAABBCCDD, 0xFEDABCDE]]


def test_counter_refuses_what_does_not_fit():
    too_large = ((Call(step=2**32), 0, 0, 0), (Call(index=2**16), 0, 0, 0), (Call(), 256, 0, 0),
                 (Call(), 0, 2**20, 0), (Call(), 0, 0, 2**40))
    for call, draw, rank, group in too_large:
        with pytest.raises(ValueError):
            counters(call, draw, rank, 0, [group])


def test_word_of_an_element_is_a_rotation_of_the_word_of_its_lane_group():
    call = Call(seed=99, step=4)
    words = random_words(call, REDUCE, 3, 2, 0, 64)
    for e in range(64):
        output = philox4x32(counters(call, REDUCE, 3, 2, [e // 16]), key(call))[0]
        word, k = int(output[e // 4 % 4]), 8 * ((e + 1) % 4)
        assert int(words[e]) == (word >> k | word << 32 - k) % 2**32
        assert int(words[e]) >> 24 == word >> 8 * (e % 4) & 0xFF  # it begins with byte e mod 4


@pytest.mark.parametrize("first_value", (1, 5, 32, 2**36 - 3))
def test_words_do_not_depend_on_where_a_range_begins(first_value):
    call = Call(seed=5)
    whole = random_words(call, QUANTIZE, 0, 0, first_value - 1, 50)
    assert np.array_equal(random_words(call, QUANTIZE, 0, 0, first_value, 49), whole[1:])


def test_hop_is_taken_modulo_4096():
    call = Call(seed=5)
    words = [random_words(call, REDUCE, 1, hop, 0, 16) for hop in (1, 4095, 4096, 4097)]
    assert np.array_equal(words[0], words[3])
    assert not np.array_equal(words[1], words[2])


def test_streams_seeds_steps_indices_draws_ranks_and_hops_draw_differently():
    places = [(Call(), 0, 0, 0), (Call(seed=1), 0, 0, 0), (Call(stream_id=1), 0, 0, 0),
              (Call(step=1), 0, 0, 0), (Call(index=1), 0, 0, 0), (Call(), 3, 0, 0),
              (Call(), 0, 1, 0), (Call(), 0, 0, 1)]
    drawn = {tuple(map(int, random_words(*place, 0, 8))) for place in places}
    assert len(drawn) == len(places)


@pytest.mark.parametrize("draw", (QUANTIZE, REDUCE, REENCODE, OUTPUT))
def test_listed_positions_hold_the_words_they_promise(draw):
    for k, e in enumerate(POWER[draw]):
        assert random_words(CALL, draw, 0, HOP[draw], e, 1).tolist() == [2**k]
    for k, e in enumerate(ONES[draw]):
        assert random_words(CALL, draw, 0, HOP[draw], e, 1).tolist() == [2**k - 1]
    assert len(POWER[draw]) == 32 and len(ONES[draw]) == 33
