"""docs/results/adaptive.md: a program writes its table between the marks that name it."""

from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs/results/adaptive.md"


def write_table(program, text):
    """In place of what stands between the marks of `program`, "library.py"."""
    begin, end = f"<!-- table of {program} -->", f"<!-- end of the table of {program} -->"
    before, rest = PAGE.read_text().split(begin)
    PAGE.write_text(f"{before}{begin}\n\n{text}\n\n{end}{rest.split(end)[1]}")
