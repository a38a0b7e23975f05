"""Known answers: which cases are worth pinning, and their text; no arithmetic of the format."""
