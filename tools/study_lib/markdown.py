"""Parts of a page in Markdown that a tool writes."""

import textwrap

_WIDTH = 115


def paragraph(text, bullet=False):
    """Wrapped, with an empty line behind it; a bullet has none."""
    first, rest = ("- ", "  ") if bullet else ("", "")
    lines = textwrap.fill(" ".join(text.split()), _WIDTH, initial_indent=first,
                          subsequent_indent=rest, break_long_words=False, break_on_hyphens=False)
    return lines if bullet else lines + "\n"


def table(head, rows):
    """Of cells that are strings, with an empty line behind it."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines) + "\n"
