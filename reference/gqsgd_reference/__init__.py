"""A slow second definition of every bit of libgqsgd, written from docs/FORMAT.md alone.

It imports NumPy and nothing of the library: where the two disagree, one of them or the page is
wrong. Each module is a section of the page and uses its letters in formulas.
"""
