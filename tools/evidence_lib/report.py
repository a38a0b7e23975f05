"""The page: tables of steps and times, the map, and where compression does not pay."""

from dataclasses import dataclass

import gqsgd
from study_lib.drawing import can_draw
from study_lib.markdown import paragraph, table

from . import times
from .cells import AIMS, AIMS_BUCKET_MB, AIMS_CELL, key_of
from .contenders import BY_NAME, CONTROL, FLOAT32, FP16, OURS, shown
from .domains import DOMAINS
from .hosts_report import (
    aims_section,
    cells_section,
    live_runs,
    live_section,
    live_times,
    measured_gains,
    measured_section,
)
from .outcome import common, outcomes
from .rows import section as sparse_rows

RATES = {"200 Mbit/s": 0.2e9, "1 Gbit/s": 1e9, "10 Gbit/s": 10e9, "25 Gbit/s": 25e9}
HOSTS, COMPUTE_S = 4, 0.1
LEAST_GAIN = 1.1  # below this the answer is float32
DEFAULT = "blocks-8"
LANGUAGE_MODELS = "lm", "lm-6m"  # which the aims are about
ELSEWHERE = [(hosts, compute_s) for hosts in (4, 8) for compute_s in (0.05, 0.1, 0.15)]
SHOWN_ELSEWHERE = (FP16, "blocks-8", "adaptive-5", "rotated-4", "adaptive-3", "PowerSGD rank 4")


def write(runs, others, hosts, arguments):
    """Prints the page; writes it to --out, and with --page there too. runs: {domain: {key:
    result}} of the page's ranks; others: the same of other numbers of ranks; hosts: {part: {key:
    result}}."""
    of_domains = {name: outcomes(found) for name, found in runs.items() if found}
    ratios = common(of_domains)
    cells = decided(ratios, of_domains)
    text = page(Found(runs, others, hosts, of_domains, ratios, cells), arguments)
    print(text)
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "evidence.md").write_text(text)
    folders = [arguments.out]
    if arguments.page:
        arguments.page.write_text(text)
        folders.append(arguments.page.parent.parent / "pictures")
    if not can_draw():
        return
    from . import picture

    for folder in folders:
        picture.draw(folder, {name: runs[name] for name in of_domains}, gains(ratios), cells,
                     live_runs(hosts["live"], runs))


@dataclass(frozen=True)
class Found:
    """What the page is about."""

    runs: dict
    others: dict
    hosts: dict
    of_domains: dict
    ratios: dict
    cells: dict


def page(found, arguments):
    of_domains, ratios, cells = found.of_domains, found.ratios, found.cells
    seeds = {name: max(one.seeds for one in own.values()) for name, own in of_domains.items()}
    lines = ["# Does it pay? Time to accuracy\n", paragraph(
        """This page is for people who ask whether fewer bits end a training earlier. It has the
        steps that each contender takes to a fixed quality, times of a step, and the cases in which
        the answer is no."""), paragraph(
        f"""Command: `tools/evidence --build build --kept docs/results/evidence --page
        docs/results/evidence.md`. It continues where it was interrupted; digests of the results are
        in [evidence/](evidence), and what is there is not run again. libgqsgd {gqsgd.version()};
        {arguments.ranks} ranks, simulated in one process: results do not depend on the network, so
        these are the steps of any, and two runs of a seed have the same digits. Seeds, at most:
        {', '.join(f'{name} {count}' for name, count in seeds.items())}. Processor time of these
        trainings: {_hours(found)}."""), paragraph(
        """The paper's tables and figures beside ours are in [paper.md](paper.md).""")]
    of_hosts = found.hosts["cells"]
    lines += ["## In short\n", *verdicts(
        of_domains, ratios, cells, measured_aims(of_hosts, of_domains, ratios),
        live_times(found.hosts["live"], found.runs))]
    lines += ["## Steps to the quality\n", *steps_section(of_domains)]
    lines += more_ranks_section(found.others)
    lines += ["## Time to the quality, predicted\n", *predicted_section(ratios)]
    lines += elsewhere_section({HOSTS: ratios, **_common_of_others(found.others)})
    lines += ["## Time to the quality, with measured steps\n", *measured_section(ratios)]
    lines += ["## Time to the quality, live\n", *live_section(found.hosts["live"], found.runs)]
    lines += ["## Embeddings, row by row\n", *sparse_rows()]
    lines += ["## Where not to use it\n", *limits_section(ratios, cells, arguments)]
    lines += ["## The map, measured\n", *cells_section(of_hosts), *aims_section(of_hosts)]
    return "\n".join(lines)


def _hours(found):
    seconds = sum(run["seconds"] for own in (found.runs, found.others)
                  for results in own.values() for run in results.values())
    return f"{seconds / 3600:.1f} h" if seconds > 3600 else f"{seconds / 60:.0f} min"


def more_ranks_section(others):
    """A table of steps for each other number of ranks that has results; none where there are
    none."""
    counts = sorted({int(key.split("/")[0]) for own in others.values() for key in own})
    lines = []
    for count in counts:
        of_domains = {name: _outcomes_of(count, own) for name, own in others.items()}
        of_domains = {name: own for name, own in of_domains.items() if own}
        names = [name for name in BY_NAME if any(name in own for own in of_domains.values())]
        lines += [f"### {count} ranks\n", paragraph(
            f"""The same with `--ranks {count}`: each step has {count} batches, so that float32
            takes fewer. In brackets seeds."""),
            table(["", *of_domains], [[shown(name), *(
                f"{own[name].cell()} ({own[name].seeds})" if name in own else "-"
                for own in of_domains.values())] for name in names])]
    return lines


def _outcomes_of(count, runs):
    """Those of a domain with so many ranks."""
    return outcomes({key: run for key, run in runs.items() if key.startswith(f"{count}/")})


def gains(ratios, hosts=HOSTS, compute_s=COMPUTE_S):
    """{contender: {rate: speed-up to the quality over float32}} of those that reach it."""
    base = {rate: times.step_seconds(FLOAT32, hosts, times.VALUES, bits, compute_s)
            for rate, bits in RATES.items()}
    return {name: {rate: base[rate] / ratio / times.step_seconds(name, hosts, times.VALUES, bits,
                                                                 compute_s)
                   for rate, bits in RATES.items()}
            for name, ratio in ratios.items() if ratio}


def decided(ratios, of_domains):
    """{cell of the map: (gain, name)}: of PyTorch's 16 bits and our presets within 10 % of the
    fastest to the quality, that of the least error; float32 where the fastest gains less, with the
    gain of the default preset, which is a loss below 1."""
    errors = {name: max(found[name].error for found in of_domains.values() if name in found)
              for name in ratios}
    names = [name for name, ratio in ratios.items()
             if ratio and (name == FP16 or BY_NAME[name].kind == OURS)]
    found = {}
    for cell in times.map_cells():
        ranks, compute_s, rate, values = cell
        base = times.step_seconds(FLOAT32, ranks, values, rate, compute_s)
        gained = {name: base / ratios[name] / times.step_seconds(name, ranks, values, rate,
                                                                 compute_s) for name in names}
        least = max(LEAST_GAIN, max(gained.values()) / 1.1)
        near = [name for name in names if gained[name] >= least]
        best = min(near, key=errors.get, default=FLOAT32)
        found[cell] = (gained.get(DEFAULT if best == FLOAT32 else best, 1.0), best)
    return found


def verdicts(of_domains, ratios, cells, measured, lived):
    found = gains(ratios)
    ours = {name: row for name, row in found.items() if BY_NAME[name].kind == OURS}
    if not ours:
        return [paragraph("No preset of ours has reached the quality in every domain.")]
    best = max(ours, key=lambda name: ours[name]["1 Gbit/s"])
    over_float, over_fp16 = ours[best]["1 Gbit/s"], ours[best]["1 Gbit/s"] / found[FP16]["1 Gbit/s"]
    fast = max(row["25 Gbit/s"] for row in ours.values())
    beaten = [name for name, row in found.items()
              if BY_NAME[name].kind not in (OURS, CONTROL)
              and row["1 Gbit/s"] > ours[best]["1 Gbit/s"]]
    none, sixteen = (sum(name == one for _, name in cells.values()) for one in (FLOAT32, FP16))
    lines = [
        f"Predicted: at 1 Gbit/s, {HOSTS} hosts, {times.VALUES:,} weights and "
        f"{COMPUTE_S * 1e3:.0f} ms of compute, the fastest preset to the quality is `{best}`: "
        f"{_judged(over_float, 2.5)} over float32 (the aim is 2.5x) and {_judged(over_fp16, 1.6)} "
        "over PyTorch's fp16 hook (1.6x).",
        *_of_language_models(of_domains),
        *measured,
        f"In the same cell at 25 Gbit/s the best preset gains {fast:.2f}x: "
        f"{'take none' if fast < LEAST_GAIN else 'it still gains'}. With constants `schedule=auto` "
        f"takes {'codes' if _auto_takes_codes(RATES['25 Gbit/s']) else 'floats of 16 bits'} there "
        f"for the buckets of PyTorch (`gqsgd-plan --ranks {HOSTS} --count {times.BUCKET_VALUES} "
        f"--format {DEFAULT} --rate 25gbit`).",
        "Predicted faster than our best preset at 1 Gbit/s, by the mean of the small networks and "
        f"with a codec that takes no time: {', '.join(beaten) or 'none of the rivals'}.",
        *lived,
        f"Of {len(cells)} cells of the map below, the answer is float32 in {none} and PyTorch's "
        f"fp16 hook in {sixteen}.",
        "For your own numbers take what `gqsgd-plan --advise` says; its times are those of this "
        "page, but it counts no steps and takes no preset whose loss needs watching.",
        "Quality not reached in at least one seed: "
        + (", ".join(shown(name) for name, ratio in ratios.items() if not ratio) or "none") + "."]
    return [paragraph(line, bullet=True) for line in lines] + [""]


def _auto_takes_codes(bits_per_s):
    """Whether AUTO with the default preset takes its codes for a bucket, by constants alone."""
    q, constants = gqsgd.Quantizer(DEFAULT), times.constants_of(bits_per_s)
    auto_s, codes_s = (gqsgd.predict_time(q, HOSTS, times.BUCKET_VALUES, schedule,
                                          constants=constants) for schedule in ("auto", "direct"))
    return auto_s == codes_s


def measured_aims(of_hosts, of_domains, ratios):
    """Sentences about what was gained in the cell of the aims, by the steps of all domains and of
    each language model."""
    by_steps = {"all domains": ratios} | {f"*{name}* alone": steps_of(of_domains[name])
                                          for name in LANGUAGE_MODELS if name in of_domains}
    lines = []
    for buckets, key in ((f"buckets of {AIMS_BUCKET_MB} MiB for all", AIMS),
                         ("PyTorch's own buckets, as predicted", key_of(AIMS_CELL))):
        if key not in of_hosts:
            continue
        found = []
        for steps, of_steps in by_steps.items():
            gains = measured_gains(of_hosts[key], of_steps)
            if gains is not None:
                name, over_float, over_fp16 = gains
                found.append(f"by the steps of {steps} `{name}`, {_gained(over_float, over_fp16)}")
        if not found:
            continue
        lines.append(f"Measured in that cell of the map with {buckets}, the fastest preset of "
                     f"{', '.join(_measured_presets(of_hosts[key]))}: {'; '.join(found)}.")
    return lines


def _measured_presets(run):
    return [shown(name) for name in run["seconds"] if name not in (FLOAT32, FP16)]


def steps_of(outcomes_of_domain):
    """{contender: steps over those of float32}, None where the quality was missed. Fewer steps than
    float32 are one look of one seed, and no gain."""
    return {name: max(1.0, one.ratio) if one.reached else None
            for name, one in outcomes_of_domain.items()}


def _gained(over_float, over_fp16):
    return (f"{_judged(over_float, 2.5)} over float32 and {_judged(over_fp16, 1.6)} over the fp16 "
            "hook")


def _judged(gain, aim):
    """The gain and whether it holds; with as many digits as tell it from the aim."""
    digits = 3 if gain < aim <= round(gain, 2) else 2
    return f"{gain:.{digits}f}x ({_word(gain >= aim)})"


def _of_language_models(of_domains):
    """The same by the steps of a language model alone, for which the aims are."""
    lines = []
    for domain in LANGUAGE_MODELS:
        if domain not in of_domains:
            continue
        found = gains(steps_of(of_domains[domain]))
        best = max((name for name in found if BY_NAME[name].kind == OURS),
                   key=lambda name: found[name]["1 Gbit/s"])
        over_float = found[best]["1 Gbit/s"]
        over_fp16 = over_float / found[FP16]["1 Gbit/s"]
        ours = sum(BY_NAME[name].kind == OURS for name in found)
        lines.append(f"By the steps of *{domain}* alone, where {ours} formats of ours reached the "
                     f"quality, it is `{best}`: {_gained(over_float, over_fp16)}.")
    return lines


def steps_section(of_domains):
    names = [name for name in BY_NAME if any(name in found for found in of_domains.values())]
    means = [name for name in of_domains if DOMAINS[name].counts]
    rows = [[shown(name), *(found[name].cell() if name in found else "-"
                             for found in of_domains.values()),
             *(f"{of_domains[domain][name].error:.1e}" if name in of_domains[domain] else "-"
               for domain in means)] for name in names]
    head = ["", *(f"{name}: steps" for name in of_domains),
            *(f"{name}: error" for name in means)]
    about = []
    for name, found in of_domains.items():
        domain = DOMAINS[name]
        about.append(paragraph(
            f"""*{name}*: {domain.title}; to a loss of {domain.quality:g} on held-out data, looked
            at every {domain.evaluate_every} steps, at most {domain.most_steps}. float32 takes
            {found[FLOAT32].mean_steps:.0f}.""", bullet=True))
    return [*about, "", paragraph(
        f"""*Steps* are those of float32 with the same seed (first weights and batches) times this
        factor, and its standard deviation over seeds where there are more; **no** has the loss at
        the end, - did not run. Steps are known to one look: do not read more from a difference
        of one. *Error* is |G - mean|^2 / |mean|^2, the mean of all steps. Rivals are small
        versions from their papers ([errors.md](errors.md)) and take the whole gradient at once;
        PowerSGD and TopK add what a step has lost to the next one. The last two rows are controls:
        they are to be seen failing, or this comparison proves nothing. Means below are of
        {', '.join(f'*{name}*' for name in means)}."""), table(head, rows),
        "![Loss on held-out data](../pictures/evidence_curves.svg)\n"]


def predicted_section(ratios):
    found = gains(ratios)
    rows = []
    for name, ratio in ratios.items():
        seconds = [times.step_seconds(name, HOSTS, times.VALUES, bits, COMPUTE_S)
                   for bits in RATES.values()]
        gained = [f"{found[name][rate]:.2f}x" if ratio else "**no**" for rate in RATES]
        rows.append([shown(name), f"{ratio:.2f}" if ratio else "**no**",
                     *(f"{a * 1e3:.0f}: {b}" for a, b in zip(seconds, gained, strict=True))])
    return [paragraph(
        f"""Predicted, not measured: the steps above (geometric mean of the domains) times a step of
        a network of {times.VALUES:,} weights on {HOSTS} hosts, {COMPUTE_S * 1e3:.0f} ms of compute,
        as `gqsgd-plan --advise` computes it ([COST.md](../COST.md)). Cells: milliseconds of a step,
        and the speed-up to the quality over float32. It assumes that the large network takes as
        many more steps as the small ones; *lm-6m* above shows it for a few contenders. A rival
        takes as long as floats of as many bytes, so that its codec takes no time; ours take their
        time on one processor."""),
        table(["", "steps", *RATES], rows),
        "![Speed-up to the quality](../pictures/evidence_speedup.svg)\n"]


def _common_of_others(others):
    """{ranks: ratios} of those numbers of ranks of which every domain of the means has results."""
    means = {name: own for name, own in others.items() if DOMAINS[name].counts}
    counts = [{int(key.split("/")[0]) for key in own} for own in means.values()]
    return {count: common({name: _outcomes_of(count, own) for name, own in means.items()})
            for count in (set.intersection(*counts) if counts else ())}


def elsewhere_section(ratios_of):
    """ratios_of: {hosts: ratios of as many ranks}."""
    rows = []
    for hosts, compute_s in ELSEWHERE:
        found = gains(ratios_of.get(hosts, {}), hosts, compute_s)
        for rate, bits in RATES.items():
            base = times.step_seconds(FLOAT32, hosts, times.VALUES, bits, compute_s)
            rows.append([f"{hosts}", f"{compute_s * 1e3:.0f}", rate, f"{base * 1e3:.0f}",
                         *(f"{found[name][rate]:.2f}x" if name in found else "-"
                           for name in SHOWN_ELSEWHERE)])
    return [paragraph(
        f"""Predicted in the same way: speed-ups to the quality over float32 with {HOSTS} and 8
        hosts and other computes, for the steps of as many ranks."""),
        table(["hosts", "compute, ms", "", "float32, ms", *map(shown, SHOWN_ELSEWHERE)], rows)]


def limits_section(ratios, cells, arguments):
    rows = []
    for (ranks, compute_s) in sorted({cell[:2] for cell in cells}):
        for rate in sorted({cell[2] for cell in cells}):
            own = [cells[ranks, compute_s, rate, values] for values in
                   sorted({cell[3] for cell in cells})]
            rows.append([f"{ranks}", f"{compute_s * 1e3:.0f}", f"{rate / 1e9:g}",
                         *(f"none ({gain:.2f}x)" if name == FLOAT32 else
                           f"{shown(name)} {gain:.1f}x" for gain, name in own)])
    head = ["ranks", "compute, ms", "Gbit/s", *(f"{values / 1e6:g} M weights" for values in
                                               sorted({cell[3] for cell in cells}))]
    controls = [name for name in ratios if BY_NAME[name].kind == CONTROL and not ratios[name]]
    bullets = [
        "**Fast links.** Where floats take less time than the compute that hides them, there is "
        "nothing to gain; on 25 Gbit/s the codec on one processor is the slower part.",
        "**Small networks and long computes.** The allreduce is then a small part of a step.",
        f"**Where 16 bits do.** The fp16 hook took {ratios[FP16]:.2f} of float32's steps, needs no "
        "library, and is the answer wherever the map names it.",
        "**Low-rank gradients on slow links.** PowerSGD sends far fewer bytes than 4 bits do. If "
        "it reaches your quality in few more steps, and its orthogonalisation is cheap beside your "
        "compute, it wins; it has a state and a rank to choose.",
        "**Embeddings and one norm.** `paper-gl8`, `paper-ge4` and `paper-gl4` have one norm for "
        "all tensors; the steps of *clicks* show what that costs.",
        "**Controls that failed**, as they should, in a domain or more: "
        f"{', '.join(shown(name) for name in controls) or 'none'}."]
    return [*(paragraph(line, bullet=True) for line in bullets), "", paragraph(
        f"""The map: {len(cells)} cells, predicted. Of PyTorch's fp16 hook and our presets within
        10 % of the fastest to the quality, that of the least error, with the steps of
        {arguments.ranks} ranks. `gqsgd-plan --advise` has the same times of a step, but counts no
        steps, and takes none of `rotated-4`, `rice-3`, `adaptive-4` and `adaptive-3`, which it
        names: some trainings with them took more steps, or ended above float32's loss
        ([adaptive.md](adaptive.md#trainings)). `rotated-8`,
        `relative-8`, `HookState(budget=4)` and the paper's formats are not among its candidates.
        *None* where
        nothing gains
        {(LEAST_GAIN - 1) * 100:.0f} % over float32, and in brackets what `{DEFAULT}` would make of
        it. Rivals are not on it: their codecs are not timed."""), table(head, rows),
        "![Where it pays](../pictures/evidence_map.svg)\n"]


def _word(holds):
    return "holds" if holds else "does **not** hold"

