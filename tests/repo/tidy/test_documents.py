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


def numbers_in(name, pattern):
    """The numbers that a pattern takes from a page, whose lines are joined."""
    found = re.search(pattern, " ".join((ROOT / name).read_text().split()))
    assert found, f"{name}: {pattern} is not there"
    return [float(number) for number in found.groups()]


def test_steps_that_pages_quote_are_those_of_the_table():
    """Of docs/results/network.md, where a table is measured again now and then."""
    network = "docs/results/network.md"
    default = numbers_in(network, r"1 MiB, then 25 \| (\d+) \| (\d+) \| (\d+) \| (\d+) \| "
                                  r"(\d+) \|")
    small = numbers_in(network, r"\| 4 MiB \| (\d+) \| (\d+), \d+ \| (\d+), \d+ \| (\d+), \d+ \| "
                                r"(\d+), \d+ \|")
    quoted = numbers_in("docs/PYTORCH.md", r"and (\d+) ms of compute, `blocks-8` took (\d+) ms a "
                        r"step with the default and (\d+) with 4 MiB, `rotated-4` (\d+) and "
                        r"(\d+)\. DDP gains as well, (\d+) to (\d+), and the fp16 hook, (\d+) to "
                        r"(\d+) ")
    alone, ddp, fp16, blocks, rotated = zip(default, small)
    assert quoted == [alone[0], *blocks, *rotated, *ddp, *fp16]
    rows = [numbers_in(network, rf"\| {name} \| (\d+) \| [\d.]+x \| \d+ \|")[0] for name in (
        "none: DDP's own float32 allreduce, Gloo", "PyTorch's `fp16_compress_hook`, Gloo",
        "`blocks-8`, over UCX", "`rotated-4-8`, over UCX")]
    assert numbers_in("docs/COST.md", r"took (\d+) ms \(float32\), (\d+) \(PyTorch's hook\), (\d+) "
                                      r"\(`blocks-8`\) and (\d+) \(`rotated-4-8`\)") == rows
