"""What a tier of tools/test runs, by the list in tests/tiers.txt.

usage: tiers.py LIST TIER meson BUILD     names of the tests of a build directory, one per line
       tiers.py LIST TIER targets BUILD   what Ninja has to build for them and for the Python tests
       tiers.py LIST TIER files PATH...   those of the given paths that are in the tier
       tiers.py LIST TIER left-out        what only later tiers run, one sentence per line
"""

import fnmatch
import json
import sys
from pathlib import Path

TIERS = ("fast", "usual", "all")
UNLISTED = "usual"
SOURCE = Path(__file__).resolve().parents[1]


def read_tiers(text):
    """[(tier, pattern, what it is)] of a list; a line of another form is a ValueError."""
    lines = []
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        left, separator, meaning = line.partition(" -- ")
        tier, _, pattern = left.partition(" ")
        if tier not in TIERS or not pattern.strip() or not meaning.strip():
            raise ValueError(f"tiers: '{line}' is not 'TIER PATTERN -- WHAT IT IS'")
        lines.append((tier, pattern.strip(), meaning.strip()))
    return lines


def tier_of(name, lines):
    for tier, pattern, _ in lines:
        if fnmatch.fnmatchcase(name, pattern):
            return tier
    return UNLISTED


def is_run(name, lines, tier):
    return TIERS.index(tier_of(name, lines)) <= TIERS.index(tier)


def introspected(build, kind):
    return json.loads((Path(build) / "meson-info" / f"intro-{kind}.json").read_text())


def tests_of(build, lines, tier):
    """The tests of Meson in a tier; a test's suite is `project:suite`."""
    return [test for test in introspected(build, "tests")
            if is_run(f"{test['suite'][0].partition(':')[2]}/{test['name']}", lines, tier)]


def targets_of(build, lines, tier):
    """Files that Ninja makes: the library, programs and bindings, and what the tests depend on."""
    needed = {each for test in tests_of(build, lines, tier) for each in test["depends"]}
    files = set()
    for target in introspected(build, "targets"):
        is_product = not Path(target["defined_in"]).is_relative_to(SOURCE / "tests")
        is_for_python = target["type"] in ("shared library", "shared module")
        if target["id"] in needed or target["build_by_default"] and (is_product or is_for_python):
            files.update(str(Path(name).relative_to(build)) for name in target["filename"])
    return sorted(files)


def left_out(lines, tier):
    later = [(at, meaning) for at, _, meaning in lines if TIERS.index(at) > TIERS.index(tier)]
    return list(dict.fromkeys(meaning for _, meaning in later))


def main(tiers_path, tier, what, *paths):
    lines = read_tiers(Path(tiers_path).read_text())
    if what == "meson":
        found = [test["name"] for test in tests_of(paths[0], lines, tier)]
    elif what == "targets":
        found = targets_of(Path(paths[0]).resolve(), lines, tier)
    elif what == "files":
        found = [path for path in paths if is_run(path, lines, tier)]
    else:
        found = left_out(lines, tier)
    print("\n".join(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
