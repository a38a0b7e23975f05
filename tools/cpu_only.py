"""Refuses an installation that would bring CUDA packages, gigabytes of them, for tests on a CPU.

usage: cpu_only.py REPORT

REPORT is what `pip install --dry-run --report` writes.
"""

import json
import sys
from pathlib import Path

CUDA_PREFIXES = ("nvidia-", "cuda-", "triton")


def main(report_path):
    report = json.loads(Path(report_path).read_text())
    names = sorted(each["metadata"]["name"].lower() for each in report["install"])
    found = [name for name in names if name.startswith(CUDA_PREFIXES)]
    if found:
        print(f"{len(found)} CUDA packages would come along, {found[0]} for one. Name an index of "
              "builds for the CPU to pip, in PIP_EXTRA_INDEX_URL or PIP_FIND_LINKS.")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
