"""Cases for codes in groups."""
