"""Adds up the runners' JUnit files and judges the skips; fails on a failure or an unlisted skip.

usage: verdict.py SKIPS JUNIT...

SKIPS has one allowed skip per line, `pattern -- reason`; the pattern (with * and ?) is matched
against the test's id as this program prints it.
"""

import fnmatch
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path


def read_skips(text):
    """Patterns of a skip list. A line without a reason is a ValueError: no reason, no skip."""
    patterns = []
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        pattern, separator, reason = line.partition(" -- ")
        if not separator or not reason.strip():
            raise ValueError(f"skip list: no reason given in '{line}'")
        patterns.append(pattern.strip())
    return patterns


def read_results(path):
    """(id, "passed" | "failed" | "skipped", reason) of every test case in a JUnit file."""
    for suite in ElementTree.parse(path).getroot().iter("testsuite"):
        for case in suite.findall("testcase"):
            place = case.get("classname") or suite.get("name")
            yield f"{Path(path).stem}:{place}.{case.get('name')}", *_verdict(case)


def _verdict(case):
    for tag in ("failure", "error"):
        found = case.find(tag)
        if found is not None:
            return "failed", _text(found)
    found = case.find("skipped")
    if found is not None or case.get("status") == "notrun":
        return "skipped", "disabled" if found is None else _text(found)
    return "passed", ""


def _text(element):
    """What a runner says: pytest and GoogleTest put the place and the reason inside the element."""
    return " ".join((element.text or element.get("message", "")).split())


def main(skips_path, *junit_paths):
    patterns = read_skips(Path(skips_path).read_text())
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    unlisted = 0
    for path in junit_paths:
        here = dict.fromkeys(counts, 0)
        for test_id, verdict, reason in read_results(path):
            here[verdict] += 1
            if verdict == "failed":
                print(f"FAILED {test_id}")
            elif verdict == "skipped":
                listed = any(fnmatch.fnmatchcase(test_id, pattern) for pattern in patterns)
                unlisted += not listed
                print(f"{'skipped' if listed else 'NOT ALLOWED TO SKIP'} {test_id}: {reason}")
        print(f"{Path(path).stem}: " + ", ".join(f"{here[v]} {v}" for v in here))
        if not any(here.values()):
            print(f"FAILED {path}: no test ran")
            counts["failed"] += 1
        for verdict, count in here.items():
            counts[verdict] += count
    if unlisted:
        print(f"{unlisted} skips are not in {skips_path}")
    print(", ".join(f"{count} {verdict}" for verdict, count in counts.items()))
    return 1 if counts["failed"] or unlisted or not junit_paths else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
