"""What the profiler sees of one backward: the hook's allreduces beside the gradients' operators."""

import torch
from torch.profiler import ProfilerActivity, profile

from torch_lib.overhead import timed
from torch_lib.training import BATCH_SIZE, digits, perceptron

OWN = "gqsgd.allreduce_many"  # as the hook names its calls


def traced(path):
    """(ms of the hook's allreduces in a backward, ms of them beside operators of other threads);
    writes the Chrome trace of the rank that `path` is for, None for the others."""
    images, labels = digits()
    model, hook = timed(perceptron(0), bucket_cap_mb=4)
    inputs, targets = images[:8 * BATCH_SIZE], labels[:8 * BATCH_SIZE]

    def step():
        model.zero_grad()
        torch.nn.functional.cross_entropy(model(inputs), targets).backward()

    for _ in range(3):  # DDP lays out its buckets again after the first
        step()
    every_thread = torch._C._profiler._ExperimentalConfig(profile_all_threads=True)
    with profile(activities=[ProfilerActivity.CPU], experimental_config=every_thread) as seen:
        step()
    hook.state.close()
    if path is not None and torch.distributed.get_rank() == 0:
        seen.export_chrome_trace(str(path))
    spans = [(event.name, event.time_range.start, event.time_range.end) for event in seen.events()]
    own = [(begin, end) for name, begin, end in spans if name == OWN]
    others = merged((begin, end) for name, begin, end in spans if name.startswith("aten::"))
    return (sum(end - begin for begin, end in own) / 1e3,
            sum(beside(span, others) for span in own) / 1e3)


def merged(spans):
    """The same times as spans that do not touch each other, in order."""
    apart = []
    for begin, end in sorted(spans):
        if apart and begin <= apart[-1][1]:
            apart[-1][1] = max(apart[-1][1], end)
        else:
            apart.append([begin, end])
    return apart


def beside(span, others):
    """How much of a span lies within others, which do not touch each other."""
    return sum(max(0, min(span[1], end) - max(span[0], begin)) for begin, end in others)
