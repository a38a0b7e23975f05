"""What the files of test vectors have in common."""
