"""How far an allreduce's mean is from the true one, per byte: what tools/error_table runs."""
