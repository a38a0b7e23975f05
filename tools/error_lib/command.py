"""The command line of tools/error_table."""

import argparse
import contextlib
import multiprocessing
import sys
import time
from pathlib import Path

from study_lib.drawing import can_draw

from .generators import GENERATORS

_DOCS = Path(__file__).resolve().parents[2] / "docs"


def parse_arguments(arguments=None):
    parser = argparse.ArgumentParser(
        prog="tools/error_table", formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        description="Error of the mean against bytes sent: the library, the reference and others.")
    parser.add_argument("--data", nargs="+", metavar="NAME",
                        help=f"of {', '.join(GENERATORS)}, or a data set of tools/demo; "
                             "default: all that this machine has")
    parser.add_argument("--recorded", type=Path, metavar="NPZ",
                        help="measures these gradients of 16 ranks alone, in place of --data; "
                             "tools/adaptive_study/record.py writes them")
    parser.add_argument("--ranks", nargs="+", type=int, default=[4, 16, 64, 256])
    parser.add_argument("--seeds", type=int, default=20, help="draws of data and rounding")
    parser.add_argument("--reference-seeds", type=int, default=1,
                        help="of these, also by the reference, bit for bit")
    parser.add_argument("--reference-ranks", type=int, default=64,
                        help="the most ranks that the reference, which is slow, repeats")
    parser.add_argument("--values", type=int, default=65536, help="per rank, of made-up data")
    parser.add_argument("--picture-ranks", type=int, default=16,
                        help="ranks in the picture of errors against bytes")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--saved", nargs="+", type=Path, metavar="JSON",
                        help="measures nothing; reports what these runs have measured")
    parser.add_argument("--out", type=Path, default=Path("build/errors"), help="where files go")
    parser.add_argument("--refresh-docs", action="store_true",
                        help="also rewrites the tables of docs/results/errors.md and its pictures")
    parser.add_argument("--pictures", action="store_true",
                        help="measures nothing; draws the pictures of docs/results/errors.md again "
                             "from its tables")
    return parser.parse_args(arguments)


def plan_of(arguments):
    """The Plan; leaves with a sentence where a data set is unknown or not on this machine."""
    from .gradients import checkpoints, tasks
    from .measure import Plan

    rest = (tuple(sorted(arguments.ranks)), arguments.seeds, arguments.reference_seeds,
            arguments.reference_ranks, arguments.values)
    if arguments.recorded:
        from .recorded import recordings

        stops, digest = recordings(arguments.recorded)
        print(f"{arguments.recorded}: content {digest}", file=sys.stderr)
        return Plan(tuple(stops), *rest, stops)
    trained = {}
    if not arguments.data or set(arguments.data) - set(GENERATORS):
        trained = tasks(arguments.out / "data")
    known = [*GENERATORS, *trained]
    data, stops = [], {}
    for name in arguments.data or known:
        if name not in known:
            sys.exit(f"no data {name!r} on this machine; there are {', '.join(known)}")
        found = checkpoints(trained[name]) if name in trained else {}
        stops.update(found)
        data += found or [name]
    return Plan(tuple(data), *rest, stops)


def measure_all(plan, job_count):
    """[(unit, cells)] in the order of units, with a line per (data, ranks) on stderr."""
    from .measure import units

    todo, begin, results = units(plan), time.monotonic(), []
    with _mapper(plan, job_count) as results_of:
        for unit, cells in zip(todo, results_of(todo), strict=True):
            results.append((unit, cells))
            data, rank_count, seed = unit
            if seed == plan.seed_count - 1:
                print(f"{time.monotonic() - begin:6.0f} s  {len(results):4d}/{len(todo)}  "
                      f"{data}, n = {rank_count}", file=sys.stderr, flush=True)
    return results


_plan = None  # of a worker process


def _begin_worker(plan):
    global _plan
    _plan = plan


def _measure_unit(unit):
    from .measure import measure

    return measure(_plan, unit)


@contextlib.contextmanager
def _mapper(plan, job_count):
    """units -> cells of each, in order, in this process or in several."""
    if job_count == 1:
        _begin_worker(plan)
        yield lambda todo: map(_measure_unit, todo)
        return
    context = multiprocessing.get_context("spawn")
    with context.Pool(job_count, _begin_worker, (plan,)) as pool:
        yield lambda todo: pool.imap(_measure_unit, todo)


def main():
    arguments = parse_arguments()
    arguments.out.mkdir(parents=True, exist_ok=True)
    if arguments.pictures:
        return draw_page(arguments.picture_ranks) if can_draw() else 1
    import gqsgd
    try:
        print(f"libgqsgd {gqsgd.version()}", file=sys.stderr)
    except ImportError as error:  # its sentence names the places that were tried
        sys.exit(str(error))
    from .report import disagreements, refresh_page, report
    from .saved import json_text

    table = table_to_report(arguments)
    text = report(table)
    print(text)
    (arguments.out / "errors.md").write_text(text)
    (arguments.out / "errors.json").write_text(json_text(table))
    if arguments.refresh_docs:
        refresh_page(_DOCS / "results/errors.md", text)
    if can_draw():
        draw_report(arguments, table)
    wrong = disagreements(table)
    for sentence in wrong:
        print(sentence, file=sys.stderr)
    return 1 if wrong else 0


def draw_report(arguments, table):
    """Pictures of the table into --out, and with --refresh-docs those of the page."""
    from .picture import draw_all

    draw_all(table, arguments.picture_ranks, arguments.out)
    if arguments.refresh_docs:
        draw_page(arguments.picture_ranks)


def draw_page(rank_count):
    """The pictures of the documentation, from the page's own tables: they show the same numbers."""
    from .picture import draw_all
    from .saved import table_of_page

    table = table_of_page((_DOCS / "results/errors.md").read_text())
    draw_all(table, rank_count, _DOCS / "pictures", suffixes=("svg",))
    return 0


def table_to_report(arguments):
    """Measured now, or put together from saved runs."""
    from .measure import collect
    from .saved import table_of

    if arguments.saved:
        return table_of([path.read_text() for path in arguments.saved])
    plan, begin = plan_of(arguments), time.monotonic()
    table = collect(measure_all(plan, arguments.jobs))
    print(f"{time.monotonic() - begin:.0f} s in all", file=sys.stderr)
    return table
