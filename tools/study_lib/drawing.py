"""Whether pictures can be drawn. Tables need no matplotlib."""

import sys


def can_draw():
    """Prints a sentence where matplotlib is not installed."""
    try:
        import matplotlib  # noqa: F401
    except ModuleNotFoundError:
        print("no pictures are drawn: they need matplotlib; hint: pip install matplotlib",
              file=sys.stderr)
        return False
    return True
