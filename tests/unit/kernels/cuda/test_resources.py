"""No kernel may use local memory: the build fails where ptxas reports a spill, as is shown here."""

import subprocess

import pytest

# An array with an index of run time has no registers.
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


@pytest.fixture
def compiled(commands, build_directory, tmp_path):
    """A function: what nvcc says when it compiles a source as it compiles the kernels."""
    def compile_source(source):
        (tmp_path / "plant.cu").write_text(source)
        words = list(commands["reduce.cu"])
        words[words.index("-o") + 1] = str(tmp_path / "plant.o")
        words[-1] = str(tmp_path / "plant.cu")
        return subprocess.run(words, cwd=build_directory, capture_output=True, text=True)
    return compile_source


def test_every_kernel_is_compiled_with_spills_as_errors(commands):
    for name, words in commands.items():
        flags = [flag for word in words if word.startswith("-Xptxas=") for flag in
                 word.removeprefix("-Xptxas=").split(",")]
        assert {"--warn-on-spills", "--warn-on-local-memory-usage",
                "--warning-as-error"} <= set(flags), name


def test_a_kernel_with_local_memory_does_not_compile(compiled):
    result = compiled(INDEXES)
    assert result.returncode != 0 and "Local memory used" in result.stdout + result.stderr


def test_a_kernel_without_compiles(compiled):
    result = compiled(KEEPS_TO_REGISTERS)
    assert result.returncode == 0, result.stderr
