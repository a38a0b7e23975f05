"""Quantizer: specification from fields, and a value that compares, pickles and does not change."""

import copy
import gc
import os
import pickle
import re
import threading

import gqsgd
import numpy as np
import pytest
from gqsgd.arguments import joined_fields
from hypothesis import given
from hypothesis import strategies as st

names = st.text("abcdefghijklmnopqrstuvwxyz_", min_size=1)


@pytest.mark.parametrize(
    ("first", "fields", "text"),
    [
        ("", {}, ""),
        ("paper-ge8", {"seed": 7}, "paper-ge8,seed=7"),
        ("", {"levels": "linear", "bits": 4}, "levels=linear,bits=4"),
        ("", {"norm": ("inf", "inf")}, "norm=inf:inf"),
        ("", {"norm": [2, float("inf")]}, "norm=2:inf"),
        ("none", {"rescale": True, "seed": np.int64(3)}, "none,rescale=true,seed=3"),
        ("none", {"rescale": False}, "none,rescale=false"),
        ("none", {"rescale": np.True_}, "none,rescale=true"),
        ("paper-gl8,seed=1", {"nonfinite": "error"}, "paper-gl8,seed=1,nonfinite=error"),
    ],
)
def test_a_specification_is_made_of_fields(first, fields, text):
    assert joined_fields(first, fields) == text.encode()


@given(first=names, fields=st.dictionaries(names, st.integers() | names, max_size=5))
def test_a_specification_names_every_field_in_order(first, fields):
    parts = joined_fields(first, fields).decode().split(",")
    assert parts == [first] + [f"{name}={value}" for name, value in fields.items()]


def test_a_specification_with_a_nul_is_refused_instead_of_cut():
    with pytest.raises(gqsgd.InvalidArgument, match="NUL"):
        gqsgd.Quantizer("paper-gl8\0,seed=7")


@pytest.mark.parametrize("call", [
    lambda: gqsgd.Quantizer("\ud800"),
    lambda: gqsgd.Quantizer("blocks-8", rounding="\udfff"),
    lambda: gqsgd.Quantizer(**{"\ud800": 1}),
    lambda: gqsgd.Quantizer("blocks-8,seed=\U0001f600\ud83d"),
    lambda: gqsgd.simulate([np.ones(4, np.float32)], gqsgd.Quantizer(), nodes="\ud800"),
    lambda: gqsgd.run_local(1, lambda comm: None, costs="\ud800"),
    lambda: gqsgd.predict_time(gqsgd.Quantizer(), 2, 10, constants="\ud800"),
])
def test_strings_that_utf8_does_not_have_are_refused_by_their_place(call):
    with pytest.raises(gqsgd.InvalidArgument, match=r"holds a surrogate, character \d+, for which"):
        call()


def test_names_of_files_are_any_bytes(tmp_path):
    path = os.fsencode(tmp_path) + b"/\xff costs"
    with open(path, "w") as costs:
        costs.write("byte_ns = 0.5\n")
    assert gqsgd.run_local(1, lambda comm: comm.size, costs=os.fsdecode(path)) == [1]
    with pytest.raises(gqsgd.InvalidArgument, match=r"\\xff"):
        gqsgd.Quantizer("\udcff")


def test_constants_hold_no_nul_and_are_a_string():
    q = gqsgd.Quantizer()
    with pytest.raises(gqsgd.InvalidArgument, match="constants .* holds a NUL"):
        gqsgd.predict_time(q, 2, 10, constants="byte_ns = 1\0 2")
    with pytest.raises(TypeError, match="constants is 3, a int"):
        gqsgd.predict_time(q, 2, 10, constants=3)


FIELDS = {
    "levels": ["linear", "exponential", "none", "bf16", "fp16", "rice"],
    "bits": [4, 8, 16, 32],
    "bits_down": [4, 8, 32],
    "norm": ["inf:inf", "2:2", "inf:2"],
    "block": [0, 32, 128, 65536],
    "rounding": ["independent", "correlated", "nearest"],
    "rounding_down": ["random", "subtractive"],
    "rotate": ["none", "hadamard"],
    "combine": ["exact", "sum", "average"],
    "rescale": [True, False],
    "mantissa_bits": [0, 2],
    "nonfinite": ["poison", "error"],
    "width": ["fixed", "adaptive"],
    "mean_bits": [0, 2.5, 4, 4.5, 8],
    "seed": [0, 7, 2**64 - 1],
}


@given(
    preset=st.sampled_from(["", *gqsgd.PRESETS]),
    fields=st.fixed_dictionaries(
        {}, optional={name: st.sampled_from(values) for name, values in FIELDS.items()}
    ),
)
def test_what_is_shown_makes_an_equal_quantizer(preset, fields):
    try:
        q = gqsgd.Quantizer(preset, **fields)
    except (gqsgd.InvalidArgument, gqsgd.Unsupported):
        return
    assert eval(repr(q), {"Quantizer": gqsgd.Quantizer}) == q


def test_the_full_specification_makes_an_equal_quantizer():
    q = gqsgd.Quantizer("paper-gl8", seed=7)
    assert gqsgd.Quantizer(q.spec) == q
    assert "seed=7" in q.spec
    assert repr(q) == "Quantizer('paper-gl8,seed=7')"
    assert str(q) == q.spec


@pytest.mark.parametrize(
    ("spec", "shown"),
    [
        ("", "blocks-8"),
        ("seed=7", "blocks-8,seed=7"),
        ("levels=fp16,rounding=nearest", "fp16,rounding=nearest"),
        ("blocks-8,bits=4,nonfinite=error", "blocks-8,bits=4,nonfinite=error"),
        ("rotated-4-8", "rotated-4-8"),
        ("levels=linear,bits=8", "paper-gl8"),
        ("levels=none,seed=3", "none,seed=3"),
        ("levels=exponential,bits=8,norm=2:2", "paper-ge8,norm=2:2"),
    ],
)
def test_a_quantizer_is_shown_as_the_shortest_call_that_makes_it(spec, shown):
    q = gqsgd.Quantizer(spec)
    assert repr(q) == repr(gqsgd.Quantizer(q.spec)) == f"Quantizer({shown!r})"
    assert eval(repr(q), {"Quantizer": gqsgd.Quantizer}) == q


def test_presets_are_those_of_the_library():
    with pytest.raises(gqsgd.InvalidArgument) as caught:
        gqsgd.Quantizer("no-such-preset")
    known = re.search(r"there are ([\w, -]*);", str(caught.value))[1].split(", ")
    assert sorted(known) == sorted(gqsgd.PRESETS)
    assert [repr(gqsgd.Quantizer(name)) for name in known] == [f"Quantizer({n!r})" for n in known]


def test_equality_and_hash_are_those_of_the_specification():
    q, same = gqsgd.Quantizer("paper-gl8", seed=7), gqsgd.Quantizer("paper-gl8,seed=7")
    assert (q, hash(q)) == (same, hash(same))
    assert q != gqsgd.Quantizer("paper-gl8", seed=8)
    assert q != q.spec
    assert len({q, same}) == 1


@pytest.mark.parametrize(
    "duplicate", [copy.copy, copy.deepcopy, lambda q: pickle.loads(pickle.dumps(q))]
)
def test_copies_live_longer_than_the_original(duplicate):
    q = gqsgd.Quantizer("paper-ge8", seed=3)
    text, other = q.spec, duplicate(q)
    del q
    gc.collect()
    assert other.spec == text
    assert other.packed_size(4) == 4


def test_without_a_preset_fields_change_the_default_unless_they_name_levels():
    default = gqsgd.Quantizer("blocks-8")
    assert gqsgd.Quantizer() == gqsgd.Quantizer("") == gqsgd.Quantizer(" ") == default
    assert gqsgd.Quantizer(seed=7) == gqsgd.Quantizer("blocks-8", seed=7)
    assert gqsgd.Quantizer("bits=4", seed=7) == gqsgd.Quantizer("blocks-8,bits=4,seed=7")
    assert gqsgd.Quantizer(levels="linear", bits=4) == gqsgd.Quantizer("paper-gl4")
    assert gqsgd.Quantizer("seed=7,levels=none") == gqsgd.Quantizer("none", seed=7)


def test_a_quantizer_is_immutable():
    q = gqsgd.Quantizer()
    with pytest.raises(AttributeError, match="immutable"):
        q.spec = "none"
    with pytest.raises(AttributeError, match="immutable"):
        q.seed = 8
    with pytest.raises(AttributeError, match="immutable"):
        del q.spec


@pytest.mark.parametrize("text", ["paper-gl9", "speed=7", "bits=9", "paper-gl8,levels=cubic"])
def test_unknown_names_and_values_are_refused_by_the_library_by_name(text):
    with pytest.raises(gqsgd.InvalidArgument) as caught:
        gqsgd.Quantizer(text)
    assert text.split(",")[-1].split("=")[-1] in str(caught.value) or "speed" in str(caught.value)


def test_a_boolean_reaches_the_library_as_a_word():
    with pytest.raises(gqsgd.InvalidArgument, match="seed"):
        gqsgd.Quantizer(seed=True)


@pytest.mark.parametrize(("preset", "bits"), [("paper-gl8", 8), ("paper-ge8", 8), ("none", 32),
                                              ("bf16", 16), ("fp16", 16)])
@pytest.mark.parametrize("count", [0, 1, 3, 4, 31, 32, 33, 1000])
def test_packed_size_is_whole_words(preset, bits, count):
    assert gqsgd.Quantizer(preset).packed_size(count) == 4 * -(-count * bits // 32)


@pytest.mark.parametrize("count", [0, 1, 127, 128, 129, 1000])
def test_result_size_has_bits_down_and_norms_are_one_per_block(count):
    q = gqsgd.Quantizer(levels="linear", bits=4, bits_down=8, block=128, rescale=True)
    assert q.packed_size(count) == 4 * -(-count // 8)
    assert q.result_size(count) == 4 * -(-count // 4)
    assert q.norm_count(count) == -(-count // 128)
    assert gqsgd.Quantizer("paper-gl8").result_size(count) == 4 * -(-count // 4)


@pytest.mark.parametrize(
    ("preset", "fields"),
    [
        ("blocks-8", ["bits=8", "bits_down=8", "block=128", "rounding=correlated", "rescale=true"]),
        ("relative-8", ["levels=exponential", "mantissa_bits=2", "rounding=correlated"]),
    ],
)
def test_presets_are_fields(preset, fields):
    assert set(fields) <= set(gqsgd.Quantizer(preset).spec.split(","))


@pytest.mark.parametrize(
    ("fields", "hint"),
    [
        ({"block": 0}, "block=128, or rescale=false"),
        ({"block": 64, "norm": ("2", "2")}, "norm=inf:inf, or block=0"),
        ({"mantissa_bits": 2}, "levels=exponential"),
        ({"levels": "none", "block": 32}, "takes no block"),
    ],
)
def test_fields_that_do_not_go_together_are_refused_with_what_would_work(fields, hint):
    with pytest.raises(gqsgd.InvalidArgument, match=hint):
        gqsgd.Quantizer(**fields)


def test_one_norm_per_call_for_the_paper():
    q = gqsgd.Quantizer("paper-gl8")
    assert [q.norm_count(count) for count in (1, 1000, 10**6)] == [1, 1, 1]


@pytest.mark.parametrize("count", [-1, 2**64])
def test_a_count_that_does_not_fit_is_refused_instead_of_wrapped(count):
    with pytest.raises(gqsgd.InvalidArgument, match=str(count)):
        gqsgd.Quantizer().packed_size(count)


def test_a_failed_construction_leaves_nothing_to_destroy():
    q = gqsgd.Quantizer.__new__(gqsgd.Quantizer)
    q.__del__()


def test_one_quantizer_serves_many_threads():
    q, sizes = gqsgd.Quantizer("paper-gl8"), []
    threads = [
        threading.Thread(target=lambda: sizes.extend(q.packed_size(64) for _ in range(200)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sizes == [64] * 800
