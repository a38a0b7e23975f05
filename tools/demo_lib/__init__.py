"""Data-parallel training on real data with gqsgd: what tools/demo runs."""
