"""What studies share that take long: results that are kept, and parts of their pages."""
