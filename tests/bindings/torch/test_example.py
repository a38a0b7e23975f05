"""The examples train, and ddp.py is plain DDP but for the lines that its first lines name."""

import re
import subprocess
import sys
from pathlib import Path

import gqsgd.torch
import pytest

EXAMPLES = Path(__file__).resolve().parents[3] / "examples" / "python"
EXAMPLE = EXAMPLES / "ddp.py"


def output(program, *arguments):
    """What a run on two processes prints."""
    result = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2",
         program, *arguments], capture_output=True, text=True, timeout=110)
    assert result.returncode == 0, result.stderr[-3000:]
    return result.stdout


def numbers(word, text):
    """What follows `word`."""
    return [float(each) for each in re.findall(rf"{word} (\d+\.\d+)", text)]


@pytest.mark.parametrize("name", ["ddp.py", "fsdp2.py"])
def test_the_examples_train(name):
    text = output(EXAMPLES / name)
    found = numbers("accuracy", text)
    assert len(found) == 8
    assert found[0] < found[-1]
    assert found[-1] > 0.9
    if name == "ddp.py":
        assert "rank 0 of 2, transport processes" in text
        assert 3 < numbers("ratio", text)[0] < 4


def test_the_compiled_example_finds_its_solution():
    text = output(EXAMPLES / "compiled.py", "aot_eager")  # no C++ compiler is needed
    found = numbers("error", text)
    assert len(found) > 5
    assert found[-1] < 1e-4 * found[0]


@pytest.mark.parametrize("name", ["PYTORCH.md", "PYTORCH_GPU.md"])
def test_the_pages_name_what_there_is(name):
    page = (EXAMPLE.parents[2] / "docs" / name).read_text()
    blocks = re.findall(r"^```python\n(.*?)^```$", page, flags=re.MULTILINE | re.DOTALL)
    assert len(blocks) > 1
    for block in blocks:
        compile(block, name, "exec")
    for function in re.findall(r"gqsgd\.torch\.(\w+)", page):
        assert hasattr(gqsgd.torch, function), function


def test_the_example_is_plain_ddp_but_for_three_lines():
    code = EXAMPLE.read_text().split('"""', 2)[2]
    ours = [line for line in code.splitlines() if "gqsgd" in line]
    assert [line.strip() for line in ours] == [
        "import gqsgd.torch",
        'state = gqsgd.torch.HookState("blocks-8")',
        "model.register_comm_hook(state, gqsgd.torch.allreduce_hook)",
    ]
    compile("\n".join(line for line in code.splitlines() if line not in ours), "ddp.py", "exec")
