"""HookState(budget=...): one average of bits over a model, kept in every step and equal on all
ranks."""

import io
import pickle
import re

import gqsgd.torch
import numpy as np
import pytest
import torch
import torch_models as models
from gqsgd.torch import budget as budgets
from gqsgd.torch.policy import fields_of

INVALID = gqsgd.InvalidArgument
BLOCK = 128


def net(seed=0):
    """Layers whose gradients differ by powers of ten, in buckets of their own, with an embedding
    of which most rows get no gradient."""
    torch.manual_seed(seed)
    scales = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.Linear(64, 96),
                                 torch.nn.Linear(96, 64), torch.nn.Linear(64, 4))
    with torch.no_grad():
        for layer, factor in zip(scales, (1.0, 0.03, 3.0, 0.1)):
            layer.weight.mul_(factor)
    return torch.nn.Sequential(Rows(), scales)


class Rows(torch.nn.Module):
    """Adds a row of an embedding, chosen by the sign of the inputs."""

    def __init__(self):
        super().__init__()
        self.rows = torch.nn.Embedding(400, 32)

    def forward(self, x):
        return x + self.rows((x[:, 0].abs() * 20).long())


def hooked(budget, quantizer="", **options):
    return models.hooked(net(), quantizer, budget=budget, **options)


def halves_of(report):
    """(mean_bits in halves, blocks) of the calls of a report that have them."""
    calls = {}
    for row in report.rows:
        mean = re.search(r"^(adaptive-|rice-|width=adaptive,mean_bits=|levels=rice,mean_bits=)"
                         r"(\d(\.5)?)$", row.format)
        if mean is not None:
            mean = float(mean[2])
            halves, blocks = calls.get(row.call, (int(2 * mean), 0))
            calls[row.call] = halves, blocks + -(-row.values // BLOCK)
    return list(calls.values())


def trained(budget, step_count, quantizer=""):
    """Of each step: bits of the parameters, halves and blocks, bytes by report and by counters."""
    model, state = hooked(budget, quantizer)
    seen, before = [], None
    for step in range(step_count):
        models.train(model, [step])
        report = state.report()
        counts = state.communicator.stats()
        sent = counts if before is None else counts.since(before)
        before = counts
        assert (report.step, report.budget) == (step, budget)
        seen.append((models.digest(model.parameters()), halves_of(report),
                     (report.bytes, report.bits, sum(row.bytes for row in report.rows)),
                     (sent["payload_bytes_sent"], sent.ratio)))
    state.close()
    return seen


@pytest.mark.parametrize("quantizer", ["", "rice-4"])
@pytest.mark.parametrize(("size", "budget"), [(2, 4), (3, 4.7), (2, 2.5), (2, 8)])
def test_every_step_keeps_the_budget_and_ranks_agree(torch_groups, size, budget, quantizer):
    ranks = torch_groups(size).run(trained, budget, 4, quantizer)
    for step, of_ranks in enumerate(zip(*ranks)):
        assert len({(bits, str(halves)) for bits, halves, _, _ in of_ranks}) == 1
        halves = of_ranks[0][1]
        spent, allowed = (sum(h * b for h, b in halves), 2 * budget * sum(b for _, b in halves))
        assert spent <= allowed, (step, halves)
        if step == 0:
            assert spent > allowed - len(halves) - max(b for _, b in halves)
    last = ranks[0][-1][1]
    assert len(last) > 2 and 5 <= min(last)[0] and max(last)[0] <= 16
    if budget == 4:
        assert len({halves for halves, _ in last}) > 1, "calls of unlike norms get unlike means"


@pytest.mark.parametrize("size", [2, 3])
def test_a_report_has_the_bytes_that_communicators_count(torch_groups, size):
    for steps in torch_groups(size).run(trained, 4, 3):
        for _, _, (report_bytes, bits, sum_of_rows), (counted, ratio) in steps:
            assert report_bytes == sum_of_rows == counted > 0
            assert bits == pytest.approx(32 / ratio, rel=1e-12)


def sent_codes(budget, step_count):
    """Bytes that this rank sent in adaptive calls, and their halves and blocks, by step."""
    model, state = hooked(budget)
    seen = []
    for step in range(step_count):
        models.train(model, [step])
        report = state.report()
        seen.append((sum(row.bytes for row in report.rows if row.format != "none"),
                     halves_of(report)))
    state.close()
    return seen


def planes(halves, blocks, size):
    """Planes of codes of all groups of a call (docs/FORMAT.md, section 16), 16 bytes each."""
    granules = -(-blocks // 8)
    groups = min(size * -(-granules // (32 * size)), -(-granules // 8))
    return halves * blocks // 2 // groups * groups


def test_bytes_are_those_of_the_planes_to_the_byte(torch_groups):
    """All ranks together send every plane up and down to the size - 1 others. What else they send,
    norms and scales, depends on no budget."""
    size, totals = 2, {}
    for budget in (2.5, 4, 6.2):
        for step, of_ranks in enumerate(zip(*torch_groups(size).run(sent_codes, budget, 3))):
            sent = sum(count for count, _ in of_ranks)
            calls = of_ranks[0][1]
            codes = 2 * (size - 1) * 16 * sum(planes(*call, size) for call in calls)
            blocks = sum(count for _, count in calls)
            assert codes <= 2 * (size - 1) * budget * blocks * 16
            totals.setdefault(step, set()).add(sent - codes)
    assert all(len(rest) == 1 for rest in totals.values()), totals


def reports_with_and_without_names():
    texts = []
    for with_model in (True, False):
        inner = models.perceptron()
        model = torch.nn.parallel.DistributedDataParallel(inner)
        state = gqsgd.torch.HookState("blocks-8", model=inner if with_model else None)
        model.register_comm_hook(state, gqsgd.torch.allreduce_hook)
        models.train(model, [0])
        texts.append(str(state.report()))
        state.close()
    return texts


def test_a_report_of_numbers_says_how_to_get_names(torch_groups):
    for named, numbered in torch_groups(2).run(reports_with_and_without_names):
        assert "0.weight" in named and "HookState" not in named
        assert "parameter 3" in numbered
        assert numbered.splitlines()[-1].startswith("names: HookState(..., model=net) shows them")


def with_errors(budget):
    """Rows of a pass that measured errors and of the next, and what the bits would be without."""
    bits = []
    for measuring in (True, False):
        model, state = hooked(budget)
        models.train(model, [0])
        if measuring:
            state.measure_errors()
        models.train(model, [1])
        rows = state.report().rows
        if measuring:
            measured, text = rows, str(state.report())
            models.train(model, [2])
            assert {row.error for row in state.report().rows} == {None}
        else:
            assert {row.error for row in rows} == {None}
            models.train(model, [2])
        bits.append(models.digest(model.parameters()))
        state.close()
    assert bits[0] == bits[1], "measuring changes no result"
    return [(row.name, row.format, row.bytes, row.error) for row in measured], text


def test_errors_of_parameters_are_measured_where_wanted(torch_groups):
    group = torch_groups(2)
    low, high = (group.run(with_errors, budget)[0] for budget in (3, 7))
    assert {name for name, *_ in low[0]} == {name for name, _ in net().named_parameters()}
    # Blocks of zeros leave 8 bits for the others of their call, whatever the budget.
    beside_zeros = {"0.rows.weight", "1.0.weight"}
    for (name, form, _, error), (_, _, _, less) in zip(sorted(low[0]), sorted(high[0])):
        if form == "none":
            assert error == less == 0
        elif name in beside_zeros:
            assert 1e-6 < min(less, error) and max(less, error) < 1e-3, name
        else:
            assert 1e-6 < less < error < 1, name
    lines = low[1].splitlines()
    assert lines[0].split() == ["name", "values", "format", "call", "bits", "bytes", "error"]
    assert len(lines) == len(low[0]) + 3 and lines[-2].startswith("whole model")
    assert lines[-1].endswith("bits on average, budget 3")


def checkpointed(as_pickle):
    model, state = hooked(4.3)
    models.train(model, range(3))
    saved = io.BytesIO()
    hook = state if as_pickle else state.state_dict()
    torch.save({"net": model.module.state_dict(), "hook": hook}, saved)
    halves = []
    for step in range(3, 6):
        models.train(model, [step])
        halves.append(sorted(halves_of(state.report())))
    state.close()
    return models.digest(model.parameters()), halves, saved.getvalue()


def resumed(saved):
    checkpoint = torch.load(io.BytesIO(saved), weights_only=False)
    module = net(seed=1)
    module.load_state_dict(checkpoint["net"])
    state = checkpoint["hook"]
    if isinstance(state, gqsgd.torch.HookState):
        model = torch.nn.parallel.DistributedDataParallel(module, bucket_cap_mb=0.01)
        model.register_comm_hook(state, gqsgd.torch.allreduce_hook)
    else:
        model, state = models.hooked(module, budget=4.3)
        state.load_state_dict(checkpoint["hook"])
    halves = []
    for step in range(3, 6):
        models.train(model, [step])
        halves.append(sorted(halves_of(state.report())))
    state.close()
    return models.digest(model.parameters()), halves


@pytest.mark.parametrize("as_pickle", [False, True])
def test_a_resumed_run_has_the_same_means_and_bits(torch_groups, as_pickle):
    group = torch_groups(2)
    (bits, halves, saved), other = group.run(checkpointed, as_pickle)
    assert other[:2] == (bits, halves)
    assert group.run(resumed, saved) == [(bits, halves)] * 2


def test_checkpoints_of_another_budget_and_of_version_1():
    state = gqsgd.torch.HookState(budget=4)
    saved = state.state_dict()
    assert torch.load(io.BytesIO(bytes_of(saved)), weights_only=True) == saved
    with pytest.raises(INVALID, match="with budget=4, this state has budget=4.2; hint"):
        gqsgd.torch.HookState(budget=4.2).load_state_dict(saved)
    with pytest.raises(INVALID, match="with budget=4, this state has budget=None"):
        gqsgd.torch.HookState("adaptive-4").load_state_dict(saved)
    first = {name: value for name, value in saved.items() if name != "budget"} | {"version": 1}
    with pytest.raises(INVALID, match="with budget=None, this state has budget=4"):
        state.load_state_dict(first)
    plain = gqsgd.torch.HookState("adaptive-4")
    plain.load_state_dict({**first, "step": 5})
    assert plain.step == 5
    copy = pickle.loads(pickle.dumps(state))
    assert copy.state_dict() == saved and "budget 4" in repr(copy)


@pytest.mark.parametrize(("field", "value"), [
    ("quantizer", None), ("step", "x"), ("step", -1), ("layout", None), ("budget", "x"),
    ("budget", {"bits": 4, "step": "a", "shares": []}),
    ("budget", {"bits": 4, "step": 0, "shares": [[0, -1]]}),
    ("budget", {"bits": 4, "step": 0, "shares": [[0]]}),
])
def test_damaged_checkpoints_are_refused_by_field(field, value):
    state = gqsgd.torch.HookState(budget=4)
    with pytest.raises(INVALID, match=f"the checkpoint's {field} is .*; hint"):
        state.load_state_dict({**state.state_dict(), field: value})


def test_shares_are_dropped_where_another_policy_leaves_parameters_out():
    budget, q = budgets.Budget(4), gqsgd.Quantizer("adaptive-4")
    budget.load_state_dict({"bits": 4, "step": 0, "shares": [[0, 50], [1, 110]]})
    means = []
    for step in (1, 2):
        budget.begin(step)
        means.append(budget.quantizer_for(q, {1: 10 * BLOCK}))
    assert means == [budgets.with_mean_bits(q, 5.5), budgets.with_mean_bits(q, 4)]


def bytes_of(state):
    saved = io.BytesIO()
    torch.save(state, saved)
    return saved.getvalue()


@pytest.mark.parametrize(("arguments", "kind", "sentence"), [
    ({"budget": 9}, INVALID, "budget is 9; accepted are 2.5 to 8"),
    ({"budget": 2.4}, INVALID, "budget is 2.4; accepted are 2.5 to 8"),
    ({"budget": float("nan")}, INVALID, "budget is nan; accepted are 2.5 to 8"),
    ({"budget": "4"}, TypeError, "budget is a str, not a number"),
    ({"budget": True}, TypeError, "budget is a bool, not a number"),
    ({"budget": 4, "quantizer": "blocks-8"}, INVALID,
     "budget is 4, but blocks-8 has codes of one width; hint: HookState(budget=4)"),
    ({"budget": 4, "quantizer": None}, TypeError, "quantizer is a NoneType"),
])
def test_wrong_budgets_are_refused_with_both_values(arguments, kind, sentence):
    with pytest.raises(kind) as caught:
        gqsgd.torch.HookState(**arguments)
    assert sentence in str(caught.value)


def test_other_fields_of_the_quantizer_stay():
    state = gqsgd.torch.HookState("adaptive-6,seed=9", budget=4.2)
    assert state.quantizer == gqsgd.Quantizer("adaptive-4,seed=9")
    halved = gqsgd.torch.HookState(budget=4.9)
    assert halved.quantizer == gqsgd.Quantizer("adaptive-4,mean_bits=4.5")
    rice = gqsgd.torch.HookState("rice-6,seed=9", budget=4.2)
    assert rice.quantizer == gqsgd.Quantizer("rice-4,seed=9")


def of_unlike_budgets():
    """The quantizer is the same at first."""
    import torch.distributed as dist

    model, state = hooked(4 + dist.get_rank() / 5)
    with pytest.raises(gqsgd.Mismatch, match="budget differs: rank 0 has 4.0, rank 1 has 4.2"):
        models.train(model, [0])
    state.close()


def test_ranks_of_unlike_budgets_fail_by_name(torch_groups):
    torch_groups(2).run(of_unlike_budgets)


def overflowing():
    """Infinite gradients in the first two steps, as a loss scale makes them at first."""
    model, state = hooked(4)
    measured = []
    for step in range(4):
        inputs, targets = models.batch(step)
        loss = torch.nn.functional.mse_loss(model(inputs), targets)
        (loss * (float("inf") if step < 2 else 1)).backward()
        model.zero_grad()
        measured.append(state.state_dict()["budget"]["step"])
    state.close()
    return measured


def test_steps_that_overflow_make_no_shares(torch_groups):
    assert torch_groups(2).run(overflowing) == [[-1, -1, 2, 2]] * 2


def counts_of(values):
    return budgets.norm_counts(budgets.block_norms(values))


def random_counts(generator, count):
    """Norms of so many parameters, of unlike sizes and scales, some of them of zeros."""
    tensors = []
    for _ in range(count):
        scale = 2.0 ** generator.integers(-12, 6)
        values = generator.standard_normal(int(generator.integers(1, 5000))).astype(np.float32)
        values[: int(generator.integers(0, 2) * values.size * generator.random())] = 0
        tensors.append(torch.from_numpy(values * np.float32(scale)))
    return [counts_of(tensor) for tensor in tensors]


def random_shares(generator, spending):
    """Counts of up to 11 parameters, a budget, their blocks and shares."""
    counts = random_counts(generator, int(generator.integers(1, 12)))
    bits = float(generator.uniform(2.5, 8))
    blocks = [int(each.sum()) for _, each in counts]
    return counts, bits, blocks, budgets.shares(counts, bits, spending)


@pytest.mark.parametrize("spending", [budgets.ADAPTIVE, budgets.RICE])
@pytest.mark.parametrize("seed", range(20))
def test_shares_spend_the_budget_and_no_more(seed, spending):
    generator = np.random.default_rng(seed)
    counts, bits, blocks, shares = random_shares(generator, spending)
    total = 2 * bits * sum(blocks)
    assert all(5 * b <= share <= 16 * b for share, b in zip(shares, blocks)), seed
    assert sum(shares) <= total, seed
    most = [max(5 * b, 16 * int(n[c > 0].sum())) for b, (c, n) in zip(blocks, counts)]
    assert sum(shares) == int(total) or shares == most, seed


@pytest.mark.parametrize("spending", [budgets.ADAPTIVE, budgets.RICE])
@pytest.mark.parametrize("seed", range(20))
def test_calls_get_the_nearest_halves_and_a_step_leaves_less_than_one(seed, spending):
    generator = np.random.default_rng(seed)
    counts, bits, blocks, shares = random_shares(generator, spending)
    budget, q = budgets.Budget(bits, spending), gqsgd.Quantizer("rice-4")
    budget.load_state_dict({"bits": bits, "step": 0, "shares": [
        [k, share, share - 5 * b] for k, (share, b) in enumerate(zip(shares, blocks))]})
    for cuts in ([], range(1, len(blocks)), sorted(generator.integers(0, len(blocks), 3))):
        budget.begin(1)
        left = 0
        for call in np.split(np.arange(len(blocks)), cuts):
            means = budget.quantizer_for(q, {int(k): BLOCK * blocks[k] for k in call})
            size = max(1, sum(blocks[k] for k in call))
            halves = round(2 * float(fields_of(means)["mean_bits"]))
            left += sum(shares[k] for k in call) - halves * size
            assert 5 <= halves <= 16 and (2 * left >= -size or left < 0), seed
        assert 0 <= left and (left < size or halves == 16), seed


@pytest.mark.parametrize("spending", [budgets.ADAPTIVE, budgets.RICE])
def test_a_call_of_all_parameters_gets_the_whole_budget(spending):
    for seed in range(20):
        counts = random_counts(np.random.default_rng(seed), 5)
        blocks = [int(each.sum()) for _, each in counts]
        if any(int(n[c == 0].sum()) for c, n in counts):
            continue  # blocks of zeros take nothing
        assert sum(budgets.shares(counts, 4, spending)) == 8 * sum(blocks)


@pytest.mark.parametrize("spending", [budgets.ADAPTIVE, budgets.RICE])
def test_equal_norms_have_equal_shares_and_larger_ones_more(spending):
    def shares(*scales):
        ones = torch.ones(1280)
        counts = [counts_of(scale * ones) for scale in scales]
        return budgets.shares(counts, 4, spending)

    assert shares(1, 1, 1) == [80, 80, 80]
    assert shares(2.0**-20, 2.0**-20) == [80, 80]
    small, large = shares(2.0**-10, 1)
    assert small < 80 < large and small + large == 160
    assert shares(0, 1) == [50, 110]


def test_rice_codes_of_equal_steps_take_what_the_table_says():
    """Of normal values, with all means but those near the most bits, where the table ends."""
    values = np.random.default_rng(5).standard_normal(1 << 17).astype(np.float32)
    codes, counts = counts_of(torch.from_numpy(values))
    for halves in range(5, 15):
        error = gqsgd.expected_error(gqsgd.Quantizer("rice-4", mean_bits=halves / 2), [values],
                                     schedule="direct")
        # Two roundings, of mean square step^2 / 6 each, up with 0.2 bits less than mean_bits and
        # down with 0.2 more; their steps are apart by so many octaves.
        step = np.sqrt(error * 6 / (2.0**0.4 + 2.0**-0.4))
        threshold = int(np.float32(step).view(np.uint32) >> 16)
        bits = budgets.RICE.bits_of(codes - threshold) @ counts / 16 / counts.sum()
        assert bits == pytest.approx(halves / 2, abs=0.25), halves


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_norms_are_those_of_blocks(dtype):
    values = torch.zeros(300, dtype=dtype)
    values[5], values[200], values[299] = -2, 1, 3
    codes, counts = counts_of(values)
    # Upper halves of the patterns of 1, 2 and 3, whose lower bits are 0.
    assert list(codes) == [0x3F80, 0x4000, 0x4040] and list(counts) == [1, 1, 1]
    values[7] = float("nan")
    assert counts_of(values)[0][-1] >= 0x7F80
    assert counts_of(values[:0])[0].size == 0


def test_the_threshold_is_that_of_the_library():
    """A group of one call, as two parameters with more than the least bits for a value."""
    generator = np.random.default_rng(3)
    codes = generator.integers(0x3C00 // 8, 0x3F80 // 8, 256) * 8  # of norms from 2^-7 to 1
    norms = (codes << 16).astype(np.uint32).view(np.float32)
    for mean_bits in (4, 5.5):
        widths = gqsgd.stages.widths(
            norms, gqsgd.Quantizer("adaptive-4", mean_bits=mean_bits), 256 * BLOCK,
            site=gqsgd.stages.Site(size=1))
        counts = [np.unique(half, return_counts=True) for half in (codes[:128], codes[128:])]
        shares = budgets.shares(counts, mean_bits)
        at_threshold = 8  # blocks, of which the library takes the first and a budget equal parts
        for share, half in zip(shares, (widths[:128], widths[128:])):
            assert share / 2 == pytest.approx(int(half.sum()), abs=at_threshold)
