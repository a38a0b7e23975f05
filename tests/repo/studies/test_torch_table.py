"""tools/torch_table measures and prints what its page promises."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

ROOT = Path(__file__).resolve().parents[3]
HOOKS = "DDP;fp16;blocks-8, process;blocks-8, group"


def test_a_short_run(tmp_path):
    page = tmp_path / "torch.md"
    subprocess.run(
        [sys.executable, ROOT / "tools" / "torch_table", "--steps", "7", "--seeds", "1", "--hooks",
         HOOKS, "--repeats", "2", "--out", page, "--trace", tmp_path / "trace.json"], check=True,
        timeout=110)
    text = page.read_text()
    rows = re.findall(r"^\| (.+) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \+-", text, re.MULTILINE)
    sent = {name: float(megabytes) for name, _, megabytes, _ in rows}
    assert list(sent) == ["DDP", "fp16", "`blocks-8`, process", "`blocks-8`, group"]
    # With two ranks each sends what a gradient takes once: 8.7 MB of float32.
    assert 8.5 < sent["DDP"] < 9.5
    assert 0.45 < sent["fp16"] / sent["DDP"] < 0.55
    for name in ("`blocks-8`, process", "`blocks-8`, group"):
        assert 0.2 < sent[name] / sent["DDP"] < 0.3
    assert len(re.findall(r"^\| \d+ \| [\d,]+ \| [\d.]+ \| [\d.]+ \|$", text, re.MULTILINE)) > 1
    assert re.search(r"ran for [\d.]+ ms on its\nown thread, \d+ % of it beside", text)
    expect_allreduces_beside_backward(json.loads((tmp_path / "trace.json").read_text()))


def expect_allreduces_beside_backward(trace):
    """At least one is under way on a thread of its own while backward computes."""
    spans = [(event["name"], event["tid"], event["ts"], event["ts"] + event["dur"])
             for event in trace["traceEvents"] if event.get("ph") == "X"]
    own = [span for span in spans if span[0] == "gqsgd.allreduce_many"]
    products = [span for span in spans if span[0] == "aten::mm"]
    assert len(own) >= 3 and products
    assert {thread for _, thread, *_ in own}.isdisjoint(thread for _, thread, *_ in products)
    assert any(begin < product_end and product_begin < end
               for _, _, begin, end in own for _, _, product_begin, product_end in products)


def test_an_unknown_hook_is_refused():
    result = subprocess.run([sys.executable, ROOT / "tools" / "torch_table", "--hooks", "zip"],
                            capture_output=True, text=True, timeout=60)
    assert result.returncode == 2
    assert "no hook 'zip'; there are DDP; fp16" in result.stderr
