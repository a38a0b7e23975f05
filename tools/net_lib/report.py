"""The table of one rate."""

COLUMNS = ("", "MB sent", "ms", "faster", "limit ms", "of limit")


def table(run):
    """Aligned text. `faster` is to the first row; `limit` as in bench.measure."""
    lines = [COLUMNS] + [_cells(row) for row in run["rows"]]
    widths = [max(len(line[column]) for line in lines) for column in range(len(COLUMNS))]
    text = [f"{run['hosts']} hosts, {run['rate']} each way, {run['count']:,} values"]
    text += ["  ".join(cell.ljust(width) if column == 0 else cell.rjust(width)
                       for column, (cell, width) in enumerate(zip(line, widths, strict=True)))
             for line in lines]
    return "\n".join(text) + "\n"


def _cells(row):
    limit = row.get("limit_seconds")
    return (row["name"], f"{row['bytes'] * 1e-6:.2f}", f"{row['seconds'] * 1e3:.1f}",
            f"{row['speedup']:.2f}x", f"{limit * 1e3:.1f}" if limit else "-",
            f"{row['seconds'] / limit:.2f}" if limit else "-")
