"""Parts and reductions of every schedule for small groups."""

from gqsgd_reference.schedules import SCHEDULES, part_bounds

DESCRIPTION = """
Schedules (FORMAT.md section 10).
schedule; rank_count; combines: longest chain of reductions in code form; part_count;
owners: the rank that ends with each part.
reductions: part rank peer hop weight_a weight_b of each, six integers after one another, in an
order in which they can run; `rank` merges the codes of `peer`. None where the transport adds.
Cases parts_d_P: value_count; part_count; bounds: begin and end of each part, in elements."""

_RANK_COUNTS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 12)


def _schedule(schedule, rank_count):
    plan = SCHEDULES[schedule](rank_count)
    flat = [(one.part, one.rank, one.peer, one.hop, one.weight_a, one.weight_b)
            for one in plan.reductions]
    return {"case": f"{schedule}_{rank_count}", "schedule": schedule, "rank_count": rank_count,
            "combines": plan.reduction_depth, "part_count": len(plan.owners), "owners": plan.owners,
            "reductions": [number for one in flat for number in one]}


def _parts(value_count, part_count):
    bounds = part_bounds(value_count, part_count)
    return {"case": f"parts_{value_count}_{part_count}", "value_count": value_count,
            "part_count": part_count, "bounds": [edge for part in bounds for edge in part]}


def schedule_lists():
    """Powers of two, their neighbours and what lies between; parts with empty ones at the end."""
    records = [_schedule(schedule, count) for schedule in SCHEDULES for count in _RANK_COUNTS]
    counts = (0, 1, 31, 32, 33, 64, 65, 127, 128, 1000, 2**40 + 1)
    return records + [_parts(count, parts) for count in counts for parts in (1, 2, 3, 8)]


FILES = {"schedules.txt": (DESCRIPTION, schedule_lists)}
