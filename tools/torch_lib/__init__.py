"""The parts of tools/torch_table."""
