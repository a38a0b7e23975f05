"""tools/adaptive_study/rice.py: codes that can be read, in a fixed size, without bias."""

import itertools
import math

import numpy as np
import pytest


@pytest.fixture(autouse=True)
def paths(root, monkeypatch):
    for folder in ("tools", "reference", "bindings/python"):
        monkeypatch.syspath_prepend(str(root / folder))


def data_of(values):
    from adaptive_study.data import in_tensors

    return in_tensors("made up", np.asarray(values, np.float32), [len(values[0])])


def hard_cases(random, value_count=4096):
    """{name: values (4 ranks, value_count)}: many scales, zeros, whole steps, one large value."""
    normal = random.standard_normal((4, value_count))
    scales = np.repeat(np.exp(2 * random.standard_normal(value_count // 128)), 128)
    spike = np.zeros((4, value_count))
    spike[2, 77] = 3e38
    return {"gauss": normal, "heavy": normal / random.random((4, value_count))**2,
            "scales": normal * scales, "tiny": 1e-44 * normal, "small": 1e-34 * normal,
            "huge": 6e37 * normal,
            "zeros": np.zeros((4, value_count)), "spike": spike,
            "signs": np.sign(normal), "equal": np.ones((4, value_count)),
            "sparse": np.where(random.random((4, value_count)) < 0.01, normal, 0),
            "unequal ranks": normal * np.array([1, 1e-6, 1e3, 0])[:, None],
            "integers": np.round(3 * normal)}


def written(codes):
    """A cell in bits: the parameter, then of each value its quotient in unary and its low bits."""
    symbols = [2 * k - 1 if k > 0 else -2 * k for k in map(int, codes)]
    if not any(symbols):
        return "1111"
    return min((f"{p:04b}" + "".join("0" * (z >> p) + "1" + f"{z % 2**p:b}".zfill(p)[:p]
                                     for z in symbols) for p in range(15)), key=len)


def read(text, size):
    """(the codes of the first cell, the text behind it)."""
    p, text = int(text[:4], 2), text[4:]
    if p == 15:
        return [0] * size, text
    codes = []
    for _ in range(size):
        quotient, _, text = text.partition("1")
        z = len(quotient) * 2**p + int(text[:p] or "0", 2)
        text = text[p:]
        codes.append((z + 1) // 2 if z % 2 else -z // 2)
    return codes, text


def test_cells_are_as_long_as_they_say_and_can_be_read():
    from adaptive_study.rice import lengths_of

    random = np.random.default_rng(0)
    cells = np.concatenate([np.round(random.standard_normal((20, 32)) * scale).astype(int)
                            for scale in (0, 0.1, 0.5, 2, 30, 3000)])
    cells[7, 5] = 16384  # one large value: no quotient is above two cells' size
    texts = [written(cell) for cell in cells]
    assert lengths_of(cells).tolist() == [len(text) for text in texts]
    assert max(map(len, "".join(texts).split("1"))) <= 64 + 14
    text = "".join(texts)
    for cell in cells:
        codes, text = read(text, 32)
        assert codes == cell.tolist()
    assert text == ""


def outcomes(ratios):
    """Every (chance, codes) of rounding each ratio to one of its neighbours."""
    low, chances = np.floor(ratios), ratios - np.floor(ratios)
    for ups in itertools.product((0, 1), repeat=len(ratios)):
        chance = np.prod(np.where(ups, chances, 1 - chances))
        if chance > 0:
            yield chance, (low + ups).astype(np.int64)


@pytest.mark.parametrize("scale", [0.2, 1, 5, 60])
def test_likely_lengths_bound_the_moment_of_every_outcome(scale):
    from adaptive_study.rice import lengths_of, likely_lengths

    random, rate = np.random.default_rng(1), 0.3
    for _ in range(10):
        ratios = scale * random.standard_normal(6) * (random.random(6) < 0.7)
        chances, codes = zip(*outcomes(ratios))
        exact = math.log(np.dot(chances, np.exp(rate * lengths_of(np.array(codes))))) / rate
        found = likely_lengths(ratios[None], rate)[0]
        assert exact <= found + 1e-9
        assert found <= exact + 6 * 0.1 + 2 or np.abs(ratios).max() < 1  # all 0 has no bits


def test_no_parameter_is_better_than_those_that_are_tried():
    from adaptive_study.rice import likely_lengths

    random, rate = np.random.default_rng(2), 0.1
    cells = np.concatenate([
        random.standard_normal((200, 32)) * np.exp(random.normal(1, 1.5, (200, 1)))
        * np.exp(random.normal(0, spread, (200, 32))) for spread in (0, 1, 2)])
    low = np.floor(np.abs(cells)).astype(int)
    chances = np.ceil((np.abs(cells) - low) * 256) / 256
    lower = np.where(cells > 0, np.maximum(2 * low - 1, 0), 2 * low)
    upper = np.where(cells > 0, 2 * low + 1, 2 * low + 2)
    of_all = []
    for p in range(15):
        moves = (upper >> p) - (lower >> p)
        of_all.append(np.sum((lower >> p) + np.log1p(chances * np.expm1(rate * moves)) / rate
                             + 1 + p, axis=1))
    np.testing.assert_allclose(likely_lengths(cells, rate), 4 + np.min(of_all, axis=0), rtol=1e-12)


def test_a_larger_step_never_needs_more():
    from adaptive_study.rice import likely_lengths

    for name, values in hard_cases(np.random.default_rng(3), 512).items():
        cells = values.reshape(-1, 32) / max(np.abs(values).max(), 1e-30)
        before = np.full(len(cells), np.inf)
        for step in 2.0**-np.arange(10, -3, -1 / 8):
            found = likely_lengths(cells / step, 0.2)
            assert np.all(found <= before + 1e-9), (name, step)
            before = found


def test_ranks_agree_on_a_step_that_serves_them_all():
    from adaptive_study.rice import agreed_steps, fits, groups_of, least_steps

    none = np.zeros(2, np.int64)
    for name, values in hard_cases(np.random.default_rng(4), 8192).items():
        groups = groups_of(8192, 4.0, 32, 32)
        ranks = values.astype(np.float32).reshape(4, -1, 32)
        steps = agreed_steps(ranks, groups)
        own = [least_steps(cells, groups, none) for cells in ranks]
        assert np.all(steps == np.max(own, axis=0)), name
        assert np.all(steps == agreed_steps(ranks[::-1], groups)), name
        for cells, step in zip(ranks, own):
            assert fits(cells, steps, groups).all() and fits(cells, step, groups).all(), name
            needed = step > limits_of(cells, groups)
            assert not np.any(fits(cells, np.maximum(step - 1, 1), groups) & needed), name


def limits_of(cells, groups):
    """Codes of the steps 14 octaves below the largest value of each of two groups."""
    from adaptive_study.rule import codes_of

    largest = [np.abs(cells[groups.of_cell == group]).max() for group in range(2)]
    return np.maximum(codes_of(np.array(largest)) - 14 * 128, 128)


def test_codes_never_take_more_than_their_messages_have():
    """Whatever the values are; below 2^-32 of the groups may have all values lowered."""
    from adaptive_study.codecs import draws_of
    from adaptive_study.rice import Rice, agreed_steps, encode, groups_of, lengths_of

    for name, values in hard_cases(np.random.default_rng(5)).items():
        data = data_of(values)
        cells = data.inputs.reshape(4, -1, 32)
        for bits in (2.5, 4.0, 8.0):
            groups = groups_of(4096, bits, 32, 16)
            steps, draws = agreed_steps(cells, groups), draws_of(data, 1)
            for own, u in zip(cells, draws.up.reshape(cells.shape)):
                codes, lowered = encode(own, steps, groups, u)
                assert not lowered.any(), (name, bits)
                spent = groups.sums(lengths_of(codes))
                assert np.abs(codes).max() <= 2**14
                assert np.all(spent + 16 + 16 * 2 <= 2048 * bits), (name, bits)
            outcome = Rice(bits, bits, group_blocks=16).run(data, draws)
            assert outcome.extra["lowered groups"] == 0
            assert np.all(np.isfinite(outcome.mean))
            assert np.all(outcome.mean[data.exact == 0] == 0) or name not in ("zeros", "sparse")


def test_every_outcome_fits_where_groups_are_lowered(monkeypatch):
    """All roundings of a group of two cells, with hardly any margin."""
    from adaptive_study import rice

    monkeypatch.setattr(rice, "LOG_CHANCE", 0.05)
    random, lowered_chance = np.random.default_rng(6), 0.0
    for trial in range(3):
        cells = random.standard_normal((2, 5)) * random.choice([1, 8], (2, 1))
        groups = rice.Groups(np.zeros(2, np.int64), np.array([10]), np.array([36.0]))
        steps = rice.least_steps(cells, groups, np.zeros(1, np.int64))
        ratios = rice.ratios_of(cells, steps, groups)
        chances = (ratios - np.floor(ratios)).reshape(-1)
        for ups in itertools.product((0, 1), repeat=10):
            u = np.where(ups, 1 - 1e-9, 0).reshape(2, 5)
            codes, lowered = rice.encode(cells, steps, groups, u)
            assert rice.lengths_of(codes).sum() <= 36, trial
            if lowered.any():
                assert np.all(codes == np.trunc(ratios))
                lowered_chance += np.prod(np.where(ups, chances, 1 - chances)) / 3
    assert 0 < lowered_chance <= math.exp(-0.05)


@pytest.mark.parametrize("log_chance", [3.0, 1.0])
def test_codes_do_not_fit_as_rarely_as_was_asked_for(monkeypatch, log_chance):
    from adaptive_study import rice

    monkeypatch.setattr(rice, "LOG_CHANCE", log_chance)
    random = np.random.default_rng(7)
    cells = random.standard_normal((64, 32))
    groups = rice.groups_of(2048, 4.0, 32, 16)
    steps = rice.agreed_steps([cells], groups)
    found = [rice.encode(cells, steps, groups, random.random(cells.shape))[1].any()
             for _ in range(300)]
    assert np.mean(found) <= math.exp(-log_chance)


def bias(scheme, call_count=60):
    """In standard errors: the mean move away from 0, and the mean square over values."""
    from adaptive_study.codecs import draws_of

    random = np.random.default_rng(8)
    values = random.standard_normal((4, 2048)) * np.repeat(np.exp(random.standard_normal(16)), 128)
    values[:, ::7] = 0
    data = data_of(values)
    errors = []
    for seed in range(call_count):
        mean = scheme.run(data, draws_of(data, seed)).mean
        assert np.all(mean[::7] == 0)
        errors.append(mean - data.exact)
    errors = np.array(errors)
    outward = errors @ np.sign(data.exact)
    moved = errors.std(axis=0) > 0
    squares = errors[:, moved].sum(axis=0)**2 / np.square(errors[:, moved]).sum(axis=0)
    return (outward.mean() / outward.std() * call_count**0.5,
            (squares.mean() - 1) / (2 / moved.sum())**0.5)


def test_means_have_no_bias_and_a_margin_of_nothing_has_one(monkeypatch):
    """By chance one seed in a million would be beyond 5 standard errors."""
    from adaptive_study import rice

    scheme = rice.Rice(2.6, 3.0, group_blocks=16)
    outward, square = bias(scheme)
    assert abs(outward) < 5 and abs(square) < 5
    monkeypatch.setattr(rice, "LOG_CHANCE", 0.01)
    outward, square = bias(scheme)
    assert outward < -6 and square > 50


def test_the_targets_are_asked_of_rice_codes_by_their_own_names():
    from adaptive_study.schemes import MAIN
    from adaptive_study.targets import RICE_TARGETS, TARGETS, replaced

    asked = [*replaced(TARGETS, "rice-{}"), *RICE_TARGETS]
    assert all(one.title.removeprefix("(not asked) ").startswith(one.ours) for one in asked)
    assert {one.ours for one in asked} == {name for name in MAIN if name.startswith("rice-")}
    for one in asked:
        ours, same = MAIN[one.ours], MAIN[one.ours.replace("rice", "adaptive")]
        assert ours.up + ours.down == pytest.approx(2 * same.mean + 3 * 16 / 128)
