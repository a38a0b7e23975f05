"""What studies share that take long: results that are kept, parts of their pages, and whether
pictures can be drawn."""
