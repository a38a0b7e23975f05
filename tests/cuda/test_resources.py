"""No kernel may use local memory: the build fails where ptxas reports a spill, and that is shown."""

import json
import os
import shlex
import subprocess
from pathlib import Path

import pytest

BUILD = Path(os.environ["GQSGD_BUILD"])

# Sums of 200 numbers that are all alive at once need more than the 255 registers of a thread if each
# is a double; an array with an index of run time is local memory by itself.
SPILLS = """
__global__ void plant(const double* values, double* sums, int shift) {
  double value[200];
  #pragma unroll
  for (int k = 0; k < 200; ++k) value[k] = values[k + threadIdx.x];
  __syncthreads();
  #pragma unroll
  for (int k = 0; k < 200; ++k) sums[k + threadIdx.x] = value[k] * value[(k + 100) % 200];
}
"""
INDEXES = """
__global__ void plant(const float* values, float* sums, int shift) {
  float value[16];
  for (int k = 0; k < 16; ++k) value[k] = values[k];
  for (int k = 0; k < 16; ++k) value[(k * shift) & 15] += 1;
  sums[threadIdx.x] = value[shift & 15];
}
"""
KEEPS_TO_REGISTERS = """
__global__ void plant(const float* values, float* sums, int shift) { sums[shift] = values[shift]; }
"""


def kernel_commands():
    """{kernel source: the words of its compile command}, as the build runs them."""
    commands = json.loads((BUILD / "compile_commands.json").read_text())
    return {Path(c["file"]).name: shlex.split(c["command"]) for c in commands
            if "/kernels/cuda/" in c["file"] and c["file"].endswith(".cu")}


@pytest.fixture(scope="module")
def command():
    commands = kernel_commands()
    if not commands:
        pytest.skip("the build has no CUDA")
    return commands["reduce.cu"]


def compiled(command, source, folder):
    """What nvcc says when it compiles `source` as it compiles the kernels."""
    (folder / "plant.cu").write_text(source)
    words = list(command)
    words[words.index("-o") + 1] = str(folder / "plant.o")
    words[-1] = str(folder / "plant.cu")
    return subprocess.run(words, cwd=BUILD, capture_output=True, text=True)


def test_every_kernel_is_compiled_with_spills_as_errors(command):
    for name, words in kernel_commands().items():
        flags = [flag for word in words if word.startswith("-Xptxas=") for flag in
                 word.removeprefix("-Xptxas=").split(",")]
        assert {"--warn-on-spills", "--warn-on-local-memory-usage",
                "--warning-as-error"} <= set(flags), name


@pytest.mark.parametrize("source, reason", [(SPILLS, "spilled"), (INDEXES, "Local memory used")])
def test_a_kernel_with_local_memory_does_not_compile(command, tmp_path, source, reason):
    result = compiled(command, source, tmp_path)
    assert result.returncode != 0 and reason in result.stdout + result.stderr


def test_a_kernel_without_compiles(command, tmp_path):
    result = compiled(command, KEEPS_TO_REGISTERS, tmp_path)
    assert result.returncode == 0, result.stderr
