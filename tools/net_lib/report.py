"""The table of one rate."""

NETWORK = ", network"  # after the format of rows over UCX; those over MPI have no such word

COLUMNS = ("", "MB sent", "ms", "speed-up", "error", "limit ms", "of limit")


def table(run):
    """Aligned text. The speed-up is over the first row; `limit` as in bench.measure."""
    lines = [COLUMNS] + [_cells(row) for row in run["rows"]]
    widths = [max(len(line[column]) for line in lines) for column in range(len(COLUMNS))]
    text = [f"{run['hosts']} hosts, {run['rate']} each way, {run['count']:,} values"]
    text += ["  ".join(cell.ljust(width) if column == 0 else cell.rjust(width)
                       for column, (cell, width) in enumerate(zip(line, widths, strict=True)))
             for line in lines]
    return "\n".join(text) + "\n"


def markdown(run):
    """The same as a section of a page, docs/results/network.md."""
    unit = {"gbit": " Gbit/s", "mbit": " Mbit/s"}.get(run["rate"][-4:])
    rate = run["rate"][:-4] + unit if unit else run["rate"]
    lines = [f"## {run['hosts']} hosts, {rate}", "",
             "| " + " | ".join(COLUMNS) + " |", "|---" * len(COLUMNS) + "|"]
    for row in run["rows"]:
        name, *cells = _cells(row)
        spec, network, _ = name.partition(NETWORK)
        shown = spec if " " in spec else f"`{spec}`{network}"
        lines.append("| " + " | ".join([shown, *cells]) + " |")
    return "\n".join(lines) + "\n"


def _milliseconds(seconds):
    """Three digits of less than one."""
    ms = seconds * 1e3
    return f"{ms:.1f}" if ms >= 1 else f"{ms:.3g}"


def _megabytes(size_bytes):
    megabytes = size_bytes * 1e-6
    return f"{megabytes:.2f}" if megabytes >= 0.1 else f"{megabytes:.2g}"


def _cells(row):
    limit = row.get("limit_seconds")
    return (row["name"], _megabytes(row["bytes"]), _milliseconds(row["seconds"]),
            f"{row['speedup']:.2f}x", f"{row['nmse']:.1e}" if "nmse" in row else "-",
            _milliseconds(limit) if limit else "-",
            f"{row['seconds'] / limit:.2f}" if limit else "-")
