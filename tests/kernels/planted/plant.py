"""Writes a copy of a header with one fault in it: plant.py header copy original replacement.

The copy keeps the include guard, so that a file compiled with `-include copy` sees the fault and
never the header itself. The original text must occur exactly once: a fault that no longer fits its
header stops the build instead of testing nothing.
"""

import sys
from pathlib import Path


def main(header, copy, original, replacement):
    text = Path(header).read_text(encoding="ascii")
    count = text.count(original)
    if count != 1:
        sys.exit(f"{header} has {count} times, not once, the text to break: {original}")
    Path(copy).write_text(text.replace(original, replacement), encoding="ascii")


if __name__ == "__main__":
    main(*sys.argv[1:])
