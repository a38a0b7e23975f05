"""Ranks of a network group that something happens to: what tools/netfaults runs."""
