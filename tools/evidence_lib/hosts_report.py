"""Parts of the page that come from network namespaces: measured cells of the map and live
trainings."""

from study_lib.markdown import paragraph, table

from . import cells, live, times
from .contenders import FLOAT32, FP16, shown
from .domains import DOMAINS
from .other_work import was_disturbed


def measured_section(ratios):
    """The steps of ratios times those of network.md."""
    rows = []
    for title, seconds in times.measured_steps():
        for name, step_s in seconds.items():
            if not ratios.get(name):
                continue
            gain = seconds[FLOAT32] / step_s / ratios[name]
            over = seconds[FP16] / step_s / ratios[name] * ratios[FP16]
            rows.append([title, shown(name), f"{step_s * 1e3:.0f}", f"{gain:.2f}x", f"{over:.2f}x"])
    return [paragraph(
        """The same steps times those that [network.md](network.md#steps-of-distributeddataparallel)
        has measured: DistributedDataParallel between 4 hosts with the network of the prediction.
        Its four ranks share two processors, which is what they wait for at 1 Gbit/s."""),
        table(["", "", "ms per step", "over float32", "over the fp16 hook"], rows)]


def cells_section(found):
    """found: {key: result of cells.measure}."""
    measured = [(cell, found[cells.key_of(cell)]) for cell in cells.CELLS
                if cells.key_of(cell) in found]
    if not measured:
        return [paragraph("No cell of the map is measured yet (`--hosts cells`).")]
    rows = []
    for cell, run in measured:
        of_cell = cells.compared(cell, run)
        rows.append([f"{run['values'] / 1e6:.1f} M", f"{cell[2] / 1e9:g}", f"{cell[1] * 1e3:.0f}",
                     f"{run['alone'] * 1e3:.0f}",
                     *(f"{measured_s * 1e3:.0f} ({measured_s / predicted_s:.2f})"
                       for predicted_s, measured_s in of_cell.values()),
                     f"{run['others']:.1f}" + (" disturbed" if was_disturbed(run) else "")])
    quiet = [one for one in measured if not was_disturbed(one[1])]
    head = ["weights", "Gbit/s", "compute, ms", "alone, ms", *map(shown, cells.NAMES),
            "other work, processors"]
    return [paragraph(
        f"""Measured: {len(measured)} cells of 4 ranks, by the hooks of DistributedDataParallel
        between network namespaces (UCX; Gloo for float32 and fp16), with PyTorch's own buckets and
        gradients that come evenly and that no processor computes, as if an accelerator did. In
        brackets measured over predicted; *alone* is a step that sends nothing.
        **{_near(measured)} of {len(measured)} cells are within 10 % in all {len(cells.NAMES)}
        columns**{_of_quiet(len(measured), len(quiet), _near(quiet))}. Predictions are for the
        {100 * cells.PAYLOAD:.1f} % of a rate that Ethernet's frames leave to TCP. Most of a step is
        compute: what comes on top of it takes up to {_worst(measured):.1f} times what is predicted
        where links are fast, because four ranks share two processors. Command: `tools/evidence
        --build build --kept docs/results/evidence --hosts cells --no-runs`, as
        root."""), table(head, rows)]


def measured_gains(run, ratios):
    """(name, over float32, over the fp16 hook): the preset of a measured cell that gets to the
    quality first, by these steps; None where no such preset, or not both of these, took any."""
    needed = {name: seconds * ratios[name] for name, seconds in run["seconds"].items()
              if ratios.get(name)}
    presets = [name for name in needed if name not in (FLOAT32, FP16)]
    if not presets or len(needed) - len(presets) < 2:
        return None
    best = min(presets, key=needed.get)
    return best, needed[FLOAT32] / needed[best], needed[FP16] / needed[best]


def aims_section(found):
    """The runs of the cell of the aims, one to a row."""
    run = found.get(cells.AIMS)
    if run is None:
        return []
    ranks, compute_s, rate, _ = cells.AIMS_CELL
    rows = [[str(k + 1), *(f"{of_run[name] * 1e3:.0f}" for name in cells.AIMS_NAMES)]
            for k, of_run in enumerate(run["runs"])]
    rows.append(["median", *(f"{run['seconds'][name] * 1e3:.0f}" for name in cells.AIMS_NAMES)])
    over = [f"{run['seconds'][FLOAT32] / run['seconds'][name]:.2f}x" for name in cells.AIMS_NAMES]
    return [paragraph(
        f"""One cell again with buckets of {cells.AIMS_BUCKET_MB} MiB for all contenders, of which
        most travel during backward ([PYTORCH.md](../PYTORCH.md)), and floats of all
        buckets in one call (`gather_floats=True`): {rate / 1e9:g} Gbit/s, {ranks}
        hosts, {run['values'] / 1e6:.1f} million weights, {compute_s * 1e3:g} ms of compute. Of
        {len(run['runs'])} runs, milliseconds of a step:"""),
        table(["run", *map(shown, cells.AIMS_NAMES)], [*rows, ["over float32", *over]])]


def _of_quiet(count, quiet, near):
    """Nothing if all are."""
    return "" if quiet == count else (f"; of the {quiet} beside which other programs took less "
                                      f"than half a processor, {near}")


def _worst(measured):
    """Of all cells and contenders, measured over predicted of what a step takes beyond compute,
    where that is 10 ms at least."""
    return max((seconds - cell[1]) / (predicted - cell[1]) for cell, run in measured
               for predicted, seconds in cells.compared(cell, run).values()
               if predicted - cell[1] >= 1e-2)


def _near(measured):
    return sum(cells.worst_difference(*one) <= 0.1 for one in measured)


def live_section(found, of_runs):
    """found: {key: result of live.measure}; of_runs: {domain: {key: simulated run}}."""
    rows, near, quiet, quiet_near = [], 0, 0, 0
    for setting, name, run, simulated in live_runs(found, of_runs):
        live_s, composed_s = live.times_to_quality(run, simulated, DOMAINS[setting.domain].quality)
        is_near = bool(live_s and composed_s) and abs(live_s / composed_s - 1) <= 0.1
        near += is_near
        quiet += not was_disturbed(run)
        quiet_near += is_near and not was_disturbed(run)
        rows.append([setting.title, shown(name), f"{run['step_s'] * 1e3:.0f}",
                     f"{simulated['steps'] or '**no**'}",
                     f"{run['curve'][-1][0] if live_s else '**no**'}", _seconds(composed_s),
                     _seconds(live_s),
                     f"{live_s / composed_s:.2f}" if live_s and composed_s else "-",
                     f"{run['others']:.1f}" + (" disturbed" if was_disturbed(run) else "")])
    if not rows:
        return [paragraph("No training has run live yet (`--hosts live`).")]
    return [paragraph(
        f"""The same trainings live, end to end: DistributedDataParallel with overlap between
        {live.HOSTS} hosts, {live.SETTINGS[0].compute_ms:g} ms of compute a step, the first seed.
        *Composed* is the steps of the simulation times a step, the median of {live.STEPS} in a run
        of their own. Hooks quantize bucket by bucket and leave small tensors alone, so that their
        bits differ from the simulation's, and the quality is looked at every
        {DOMAINS['lm'].evaluate_every} steps. **{near} of {len(rows)} are within
        10 %**{_of_quiet(len(rows), quiet, quiet_near)}. The networks are small, so that links are
        slow. Command: `tools/evidence --build build --kept
        docs/results/evidence --hosts live --no-runs`, as root."""),
        table(["", "", "ms per step", "steps, simulated", "steps, live", "composed, s", "live, s",
               "live / composed", "other work, processors"], rows),
        "![Losses over time, live and composed](../pictures/evidence_live.svg)\n"]


def live_times(found, of_runs):
    """A sentence for each setting: what its trainings took to the quality, the fastest first."""
    sentences = []
    for setting in live.SETTINGS:
        quality = DOMAINS[setting.domain].quality
        seconds = {name: live.times_to_quality(run, simulated, quality)[0] for own, name, run,
                   simulated in live_runs(found, of_runs) if own == setting}
        took = sorted((live_s, shown(name)) for name, live_s in seconds.items() if live_s)
        if took:
            sentences.append(f"Live, *{setting.domain}* at {setting.title.partition(', ')[2]}, "
                             "seconds to the quality: "
                             + ", ".join(f"{name} {seconds:.1f}" for seconds, name in took) + ".")
    return sentences


def live_runs(found, of_runs):
    """[(setting, contender, live run, simulated run of the same seed)] of what has run."""
    result = []
    for setting in live.SETTINGS:
        for name in live.NAMES:
            own = found.get(live.key_of(setting, name))
            simulated = of_runs.get(setting.domain, {}).get(f"{live.HOSTS}/{name}/{live.SEED}")
            if own and simulated:
                result.append((setting, name, own, simulated))
    return result


def _seconds(value):
    return f"{value:.1f}" if value else "-"
