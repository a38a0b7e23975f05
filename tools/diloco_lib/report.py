"""The page of the tables, from what was measured."""

import statistics

import gqsgd
from study_lib.markdown import paragraph, table

from .contenders import CONTROL, FLOAT32, NAMES, OURS


def page(stores):
    """Markdown: {part: RunStore} of some of losses, network, torchft."""
    parts = {"losses": losses, "network": network, "torchft": torchft,
             "torchft-times": torchft_times}
    lines = ["# DiLoCo between sites\n", paragraph(
        """This page is for people who train on several sites by DiLoCo
        ([DILOCO.md](../DILOCO.md)). It shows what formats for the outer gradients do to the loss,
        and what an outer step sends and takes over slow links."""), paragraph(
        f"""Command: `tools/diloco_table --build build --page docs/results/diloco.md`, as root; it
        continues where it was interrupted. libgqsgd {gqsgd.version()}. Sites are processes of one
        machine with two processors, in network namespaces whose links `tc` limits. The machine had
        other work meanwhile: compare times within a table only.""")]
    for part, store in stores.items():
        lines += parts[part](store.setting, store.results)
    return "\n".join(lines)


def by_name(results):
    """{name: [results of its seeds]} of {"name/seed": result}."""
    found = {}
    for key, result in results.items():
        found.setdefault(key.rpartition("/")[0], []).append(result)
    return found


def losses(setting, results):
    runs = by_name(results)
    base = [run["loss"] for run in runs[FLOAT32]]
    noise = statistics.stdev(base)
    rows = []
    for name in (*NAMES, CONTROL):
        own = [run["loss"] for run in runs[name]]
        apart = [a - b for a, b in zip(own, base, strict=True)]
        mean, error = statistics.mean(apart), statistics.stdev(apart) / len(apart)**0.5
        judged = ["", ""] if name == FLOAT32 else [
            f"{mean:+.4f} +- {error:.4f}", "within" if abs(mean) < noise else "**outside**"]
        rows.append([_shown(name), f"{statistics.mean(own):.4f}", f"{statistics.stdev(own):.4f}",
                     *judged])
    return ["## Loss\n", paragraph(
        f"""A language model on characters (width {setting['width']}, {setting['layers']} layers)
        on {setting['sites']} sites: {setting['inner_steps']} steps of AdamW on each site, then an
        outer step (SGD, Nesterov, 0.7), {setting['outer_steps']} times. {len(base)} seeds of first
        weights, batches and rounding. *Apart* is the loss minus float32's with the same seed: mean
        and standard error of the mean. A row is *within* if that mean is below the seed noise of
        float32, its standard deviation over seeds: {noise:.4f}."""),
        table(["", "final loss", "+- over seeds", "apart", ""], rows), paragraph(
        """Sites are virtual, in one process: `gqsgd.simulate` has the bits of a network, which the
        next tables check for each preset. The control shows that this comparison can fail: most of
        its values are rounded to zero.""")]


def network(setting, results):
    found = []
    for place, run in results.items():
        sites, rate = place.split("/")
        base = statistics.median(run["contenders"][FLOAT32]["seconds"])
        rows = []
        for name, row in run["contenders"].items():
            seconds = statistics.median(row["seconds"])
            rows.append([_shown(name), _megabytes(row), f"{seconds * 1e3:.0f}",
                         f"{base / seconds:.1f}x"])
        found += [f"## Outer steps: {sites} sites, {_rate(rate)}\n",
                  table(["", "MB sent", "ms", "speed-up"], rows)]
    values = next(iter(results.values()))["values"]
    return [*found, paragraph(
        f"""The same model with {values:,} parameters. All rows make an outer step of the same
        change in turn, {setting['rounds']} times; medians, each step as slow as its slowest site.
        *MB sent* is what the kernel counts at a site's interface, headers and a barrier included.
        float32, float16 and fp8 go over Gloo, presets over UCX.""")]


def torchft(setting, results):
    rows = [[_shown(name), *(f"{run['loss']:.4f}" for run in own)]
            for name, own in by_name(results).items()]
    return ["## torchft's DiLoCo: losses\n", paragraph(
        f"""The model of the first table on {setting['sites']} sites, {setting['outer_steps']} outer
        steps, by `torchft.local_sgd.DiLoCo`: float32 over `ProcessGroupGloo`, presets over
        `gqsgd.torchft.ProcessGroup`, with one bucket for all tensors. All sites end with the same
        parameters, or the tool fails. Two seeds show that it trains; the first table has the
        noise."""),
        table(["", *(f"seed {number}" for number in range(len(rows[0]) - 1))], rows)]


def torchft_times(setting, results):
    runs = by_name(results)
    base = _median(runs[FLOAT32])
    rows = [[_shown(name), _megabytes(own[0]), f"{_median(own) * 1e3:.0f}",
             f"{base / _median(own):.1f}x"] for name, own in runs.items()]
    return [f"## torchft's DiLoCo: {setting['sites']} sites, {_rate(setting['rate'])}\n",
            table(["", "MB sent", "ms", "speed-up"], rows), paragraph(
        """The same with the larger model. An outer step, from when the last site has begun it, has
        the quorum, the allreduces and the vote; medians, without the first step, which makes
        connections. Contenders ran one after the other beside other work: do not take a difference
        of a third for more than that."""), paragraph(
        """torchft's own fp8 (`should_quantize=True`) needs Triton and a GPU; without Triton,
        torchft 0.2.0 sends floats and does not say so. *Emulated* is its format in PyTorch on the
        CPU ([fp8.py](../../tools/diloco_lib/fp8.py)): take its bytes and its losses, not its times.
        It goes tensor by tensor: each row of a matrix has a scale of its own. Each value of a
        vector has one too, so that a vector, and a bucket of torchft is one, takes 8 bytes per
        value.""")]


def _median(runs):
    """Seconds of an outer step, without the first of each run."""
    return statistics.median(second for run in runs for second in run["seconds"][1:])


def _megabytes(row):
    return f"{statistics.median(row['bytes']) * 1e-6:.3f}"


def _rate(rate):
    return f"{rate[:-4]} {rate[-4].upper()}bit/s"


def _shown(name):
    return f"`{name}`" if name in OURS else name
