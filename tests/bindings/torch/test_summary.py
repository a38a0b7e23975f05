"""HookState.summary: what a rank has sent and waited, and the error of a sample."""

import re

import gqsgd.torch
import pytest
import torch
import torch_models as models
from gqsgd.torch.summary import SAMPLE_VALUE_COUNT, SLICE_VALUE_COUNT, _slices


def entries(summary):
    """The lines after the first, by their names."""
    return dict(line.split(maxsplit=1) for line in summary.splitlines()[1:])


def of_a_training(quantizer, transport):
    model, state = models.hooked(models.perceptron(), quantizer, transport=transport)
    before = state.summary()
    own = models.local_gradients(model, loss(0))
    for step in range(3):
        models.train(model, [step])
    longest = own[0], own[2]  # weights; all others go as float32
    assert torch.equal(state._sample.values, torch.cat([each.flatten() for each in longest]))
    after, measured = state.summary(), state.summary(measure=True)
    state.close()
    return before, after, measured


def loss(step):
    inputs, targets = models.batch(step)
    return lambda model: torch.nn.functional.mse_loss(model(inputs), targets)


@pytest.mark.parametrize(("transport", "name"), [
    ("process", "processes"), ("network", "network"), ("group", "group")])
def test_a_summary_shows_bytes_ratio_waiting_and_error(torch_groups, transport, name):
    results = torch_groups(2).run(of_a_training, "blocks-8,seed=3", transport)
    for rank, (before, after, measured) in enumerate(results):
        assert before.splitlines()[0] == "<HookState blocks-8,seed=3, step 0>"
        assert entries(before) == {"quantizer": "blocks-8,seed=3", "steps": "0"}
        assert after.splitlines()[0] == "<HookState blocks-8,seed=3, step 3>"
        lines = entries(after)
        assert (lines["quantizer"], lines["steps"]) == ("blocks-8,seed=3", "3")
        assert lines["ranks"] == f"rank {rank} of 2, transport {name}"
        assert lines["schedule"] == "auto: direct"
        ratio = re.fullmatch(
            r"[\d.]+ MB in place of [\d.]+ MB of float32: ratio ([\d.]+)", lines["sent"]
        )
        assert 2 < float(ratio[1]) < 4  # vectors and small parameters go as float32
        share = re.fullmatch(r"(\d+)% of [\d.e-]+ s in calls, for other ranks", lines["waiting"])
        assert 0 <= int(share[1]) <= 100
        assert "summary(measure=True)" in lines["error"]
        assert "of step 0" in entries(measured)["error"]
    errors = {entries(measured)["error"] for _, _, measured in results}
    assert len(errors) == 1, "the error is that of all ranks"
    assert 1e-6 < float(errors.pop().split()[0]) < 1e-2


def measured_twice():
    """What summaries count around a measurement, and what the communicator has."""
    model, state = models.hooked(models.perceptron(), "blocks-8")
    models.train(model, [0])
    before = state.communicator.stats()
    summaries = [state.summary(), state.summary(measure=True), state.summary(measure=True)]
    sent_bytes = state.communicator.stats().since(before)["payload_bytes_sent"]
    summaries.append(state.summary())
    models.train(model, [1])
    summaries.append(state.summary())
    state.close()
    return [[entries(each)[name] for name in ("sent", "waiting")] for each in summaries], sent_bytes


def test_what_measuring_sends_is_in_no_summary(torch_groups):
    for (first, *others, last), sent_bytes in torch_groups(2).run(measured_twice):
        assert sent_bytes > 2 * 4096
        assert others == [first] * 3
        first_mb, last_mb = (float(each[0].split()[0]) for each in (first, last))
        assert last_mb == pytest.approx(2 * first_mb, rel=0.01)


def without_codes():
    model, state = models.hooked(models.perceptron(), "none")
    models.train(model, [0])
    lines = entries(state.summary(measure=True))
    state.close()
    return lines


def test_without_codes_there_is_no_error_and_the_ratio_is_one(torch_groups):
    for lines in torch_groups(2).run(without_codes):
        assert lines["error"] == "not measured: no gradient went in codes so far"
        assert lines["sent"].endswith("ratio 1.00")


def sampled_steps():
    model, state = models.hooked(models.perceptron(), "blocks-8")
    seen = []
    for step in range(18):
        models.train(model, [step])
        seen.append(state._sample.step)
    resumed = gqsgd.torch.HookState("blocks-8")
    resumed.load_state_dict({**state.state_dict(), "step": 21})
    other = torch.nn.parallel.DistributedDataParallel(models.perceptron())
    other.register_comm_hook(resumed, gqsgd.torch.allreduce_hook)
    models.train(other, [0])
    seen.append(resumed._sample.step)
    state.close()
    resumed.close()
    return seen


def lookup(rows):
    return torch.nn.Sequential(
        torch.nn.Embedding(rows, 16), torch.nn.Flatten(), torch.nn.Linear(64, 64)
    )


def of_late_rows(rows):
    """The summary's error, and that of the model by the report, where only the last rows of an
    embedding have gradients."""
    net = lookup(rows)
    model = torch.nn.parallel.DistributedDataParallel(net)
    state = gqsgd.torch.HookState("blocks-8", model=net)
    model.register_comm_hook(state, gqsgd.torch.allreduce_hook)
    generator = torch.Generator().manual_seed(torch.distributed.get_rank())
    inputs = torch.randint(rows - 500, rows, (32, 4), generator=generator)
    state.measure_errors()
    model(inputs).square().mean().backward()
    line = entries(state.summary(measure=True))["error"]
    squares = [parameter.grad.square().sum() for parameter in net.parameters()]
    errors = {row.name: row.error for row in state.report().rows}
    names = [name for name, _ in net.named_parameters()]
    whole = sum(errors[name] * square for name, square in zip(names, squares)) / sum(squares)
    state.close()
    return line, float(whole)


@pytest.mark.parametrize("rows", [1000, 10000])  # a sample of all values, and of a part
def test_rows_without_gradients_are_not_the_whole_sample(torch_groups, rows):
    values = rows * 16 + 64 * 64
    for line, whole in torch_groups(2).run(of_late_rows, rows):
        assert f" on {min(values, 65536)} of {values} gradients of the longest call" in line
        assert 1 / 3 < float(line.split()[0]) / whole < 3


def around_a_measured_step():
    """What the summary says of steps without measuring, and with one that measures."""
    model, state = models.hooked(models.perceptron())
    found = []
    for step in range(4):
        if step in (1, 2):
            state.measure_errors()
        models.train(model, [step])
        found.append(entries(state.summary())["sent"])
    state.close()
    return [(float(line.split()[0]), float(line.rpartition(" ")[2])) for line in found]


def test_bytes_of_measuring_are_not_in_the_summary(torch_groups):
    for found in torch_groups(2).run(around_a_measured_step):
        once, ratio = found[0]
        assert [sent for sent, _ in found] == pytest.approx([once * k for k in (1, 2, 3, 4)], 0.02)
        assert [each for _, each in found] == pytest.approx([ratio] * 4, 0.02)


@pytest.mark.parametrize("sizes", [
    [65536], [65537], [1024] * 65, [100_000, 2000, 1024, 700_000], [3, 70_000, 1030], [10**7, 5]])
def test_a_sample_lies_evenly_in_all_tensors(sizes):
    arrays = list(torch.arange(float(sum(sizes))).split(sizes))
    slices = _slices(arrays, sum(sizes))
    taken = torch.cat(slices)
    assert len(taken) <= SAMPLE_VALUE_COUNT
    assert len(taken) > 0.9 * SAMPLE_VALUE_COUNT or sizes[0] == 1024
    assert all(len(part) % SLICE_VALUE_COUNT == 0 for part in slices) or min(sizes) < 1024
    gaps = taken.diff().sub(1).clamp(min=0)
    assert gaps.max() <= 2 * sum(sizes) / 64


def test_every_sixteenth_step_and_the_first_are_sampled(torch_groups):
    for seen in torch_groups(2).run(sampled_steps):
        assert seen == [0] * 16 + [16] * 2 + [21]


def with_costs(costs):
    model, state = models.hooked(models.perceptron(), "blocks-8", costs=costs)
    models.train(model, [0])
    line = entries(state.summary())["schedule"]
    state.close()
    return line


def test_with_costs_the_schedule_is_that_of_each_call(torch_groups):
    assert all("with costs" in line for line in torch_groups(2).run(with_costs, "builtin"))


def before_and_after_a_nan():
    """Only rank 1 has it."""
    model, state = models.hooked(models.perceptron(), "blocks-8")
    models.train(model, [0])
    summaries = [state.summary()]
    inputs, targets = models.batch(1)
    inputs[0] += float("nan") * torch.distributed.get_rank()
    torch.nn.functional.mse_loss(model(inputs), targets).backward()
    counts = state.communicator.stats()["nonfinite_blocks"]
    summaries.append(state.summary())
    state.close()
    return summaries, counts


def test_blocks_with_nan_are_counted_once_there_are_some(torch_groups):
    results = torch_groups(2).run(before_and_after_a_nan)
    assert results[1][1] > 0
    for (before, after), block_count in results:
        assert "nonfinite" not in before
        line = entries(after)["nonfinite"]
        assert line.startswith(f"{block_count} blocks held NaN or infinity")
        assert "hint: a quantizer with nonfinite=error" in line
