"""Pages lead where they say: every relative link in a Markdown file exists."""

import re

from source_tree import ROOT, source_files


def dead_links(name, text):
    """Sentences on relative links of a page that lead nowhere, inside the page or beside it."""
    headings = {_anchor(title) for title in re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)}
    found = []
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        path, _, anchor = target.partition("#")
        if ":" in path:
            continue  # another site
        if not path and anchor not in headings:
            found.append(f"{name}: no heading #{anchor}")
        elif path and not (ROOT / name).parent.joinpath(path).exists():
            found.append(f"{name}: {path} does not exist")
    return found


def _anchor(title):
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def test_every_relative_link_leads_somewhere():
    assert [v for name, text in source_files({".md"}).items() for v in dead_links(name, text)] == []


def test_a_dead_link_is_seen():
    text = "# The Title, here\n[a](no/such/file.md) [b](#the-title-here) [c](#nowhere)\n"
    assert dead_links("README.md", text) == [
        "README.md: no/such/file.md does not exist", "README.md: no heading #nowhere"]
    assert dead_links("docs/DESIGN.md", "[a](FORMAT.md) [b](../README.md#x)") == []
