"""tools/gpu_model: times of stages and calls on a GPU, predicted without one."""
