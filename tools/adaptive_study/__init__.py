"""The study behind docs/results/adaptive.md: widths of codes that follow the norms of blocks."""
