"""Long runs of groups that form, fail and end in the same processes: what tools/soak runs."""
