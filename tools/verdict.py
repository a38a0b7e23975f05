"""Adds up the runners' JUnit files and judges the skips; fails on a failure or an unlisted skip.

    verdict.py judge SKIPS JUNIT...
    verdict.py failed JUNIT...    names of the files in which a test failed
    verdict.py programs TESTLOG   Meson's tests that failed, from its testlog.json

SKIPS has one allowed skip per line, `pattern -- reason`; the pattern (with * and ?) is matched
against the test's id as this program prints it.

What failed in FOLDER/NAME.xml and was run once more, alone, is in FOLDER/again/NAME.xml. Where all
of that passed, the first failures are named and forgiven, as long as they are at most
MOST_FORGIVEN in all: more of them are a defect and not a machine that was busy.
"""

import fnmatch
import json
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

MOST_FORGIVEN = 3


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
            place = _place(suite.get("name"), case.get("classname"))
            yield f"{Path(path).stem}:{place}.{case.get('name')}", *_verdict(case)


def _place(suite, class_name):
    """Meson puts the program before the name of a suite of GoogleTest, as PROGRAM.SUITE, and leaves
    the class name as it was: several programs may have the same tests."""
    return suite if not class_name or suite.endswith(f".{class_name}") else class_name


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


def passed_alone(path):
    """Whether every test that failed in this JUnit file passed when it was run once more."""
    again = Path(path).parent / "again" / Path(path).name
    if not again.exists():
        return False
    verdicts = [verdict for _, verdict, _ in read_results(again)]
    return "passed" in verdicts and "failed" not in verdicts


class Totals:
    """Counts over all files, and what was printed of each."""

    def __init__(self, patterns):
        self.counts = {"passed": 0, "failed": 0, "skipped": 0}
        self.unlisted = 0
        self.forgiven = 0
        self._patterns = patterns

    def add(self, path):
        here = dict.fromkeys(self.counts, 0)
        forgive = passed_alone(path)
        for test_id, verdict, reason in read_results(path):
            if verdict == "failed" and forgive and self.forgiven < MOST_FORGIVEN:
                self.forgiven += 1
                print(f"FAILED BESIDE OTHERS, passed alone: {test_id}")
                verdict = "passed"
            elif verdict == "failed":
                print(f"FAILED {test_id}")
            elif verdict == "skipped":
                listed = any(fnmatch.fnmatchcase(test_id, pattern) for pattern in self._patterns)
                self.unlisted += not listed
                print(f"{'skipped' if listed else 'NOT ALLOWED TO SKIP'} {test_id}: {reason}")
            here[verdict] += 1
        print(f"{Path(path).stem}: " + ", ".join(f"{here[v]} {v}" for v in here))
        if not any(here.values()):
            print(f"FAILED {path}: no test ran")
            here["failed"] += 1
        for verdict, count in here.items():
            self.counts[verdict] += count


def judge(skips_path, *junit_paths):
    totals = Totals(read_skips(Path(skips_path).read_text()))
    for path in junit_paths:
        totals.add(path)
    if totals.unlisted:
        print(f"{totals.unlisted} skips are not in {skips_path}")
    print(", ".join(f"{count} {verdict}" for verdict, count in totals.counts.items()))
    return 1 if totals.counts["failed"] or totals.unlisted or not junit_paths else 0


def failed(*junit_paths):
    for path in junit_paths:
        if any(verdict == "failed" for _, verdict, _ in read_results(path)):
            print(Path(path).stem)
    return 0


def programs(testlog_path):
    for line in Path(testlog_path).read_text().splitlines():
        test = json.loads(line)
        if test["result"] not in ("OK", "SKIP"):
            print(test["name"].split(" - ")[-1])
    return 0


if __name__ == "__main__":
    sys.exit({"judge": judge, "failed": failed, "programs": programs}[sys.argv[1]](*sys.argv[2:]))
