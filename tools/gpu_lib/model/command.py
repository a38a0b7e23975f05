"""The command line of tools/gpu_model."""

import argparse
import re
from pathlib import Path

from .fused import is_in_fused
from .kernels import cases_of, codes_of, ptx_test
from .measured import measured_page, read_reports
from .page import page

ROOT = Path(__file__).resolve().parents[3]
_TARGET = ROOT / "docs/results/gpu-model.md"
_MEASURED = ROOT / "docs/results/gpu-h200.md"
_REPORTS = ROOT / "docs/results/h200"
_LAUNCHES = ROOT / "docs/results/gpu-launches.md"


def main(arguments=None):
    """Status 1: with --check, a page has other numbers."""
    parser = argparse.ArgumentParser(
        description="Predicts how fast stages and whole calls are on a GPU.",
        epilog="Needs ptxas and nvdisasm, and a build with the tests' PTX; no device.")
    parser.add_argument("--build", required=True, help="folder of a build with CUDA and tests")
    parser.add_argument("--check", action="store_true",
                        help="compare the pages with the numbers; write nothing")
    options = parser.parse_args(arguments)
    command, environment = ptx_test(options.build)
    cases = cases_of(command, environment)
    if not any(map(is_in_fused, cases)):
        raise SystemExit(f"{command[0]} counts no fused kernels: build it again")
    wanted = {run.kernel for case in cases for run in case.runs}
    codes = codes_of(environment["GQ_PTX"].split(":"), wanted)
    counted = launches()
    pages = {_TARGET: page(cases, codes, counted),
             _MEASURED: measured_page(cases, codes, counted, read_reports(_REPORTS))}
    if not options.check:
        for path, text in pages.items():
            path.write_text(text)
        return 0
    others = [str(path.relative_to(ROOT)) for path, text in pages.items()
              if path.read_text() != text]
    for name in others:
        print(f"{name} has other numbers; tools/gpu_model writes it")
    return 1 if others else 0


def launches():
    """(kernels and copies, operations of NCCL) that 8 ranks enqueue for a call of one chunk, for
    formats with one norm, with blocks, and for float32 by NCCL's own sum."""
    found = {}
    for name, form in (("paper", "`paper-gl8`"), ("blocks", "`blocks-8`"),
                       ("floats", "`none`, native")):
        row = re.search(rf"^\| {form} \| 8 \| 1 \| 1 \| (\d+) \| (\d+) \| (\d+) \|",
                        _LAUNCHES.read_text(), re.MULTILINE)
        kernels, nccl, copies = map(int, row.groups())
        found[name] = (kernels + copies, nccl)
    return found
