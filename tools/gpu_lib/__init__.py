"""What tools/gpu_check is made of: the device, its parts, their report."""
