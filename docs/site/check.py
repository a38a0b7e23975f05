"""Looks over the pages that tools/build_docs made; prints what is wrong with them.

    docs/site/check.py build/docs/html
"""

import html
import re
import sys
from pathlib import Path

STYLE = "_static/site.css"
SIGNATURES = {"python.html": ["Quantizer(preset_or_spec", "HookState(", "Communicator.process("],
              "c.html": ["gqsgd_allreduce("], "julia.html": ["Quantizer("]}


def faults(root):
    """Sentences, none where the site is whole."""
    pages = [page for page in root.rglob("*.html") if "_static" not in page.parts]
    found = [*root_faults(root)]
    for page in pages:
        if page != root / "index.html":
            found += [f"{page.relative_to(root)} {fault}" for fault in page_faults(root, page)]
    for name, signatures in SIGNATURES.items():
        page = root / "build/docs/reference" / name
        text = shown(page.read_text()) if page.exists() else ""
        found += [f"{name} shows no signature {one}..)" for one in signatures if one not in text]
    return found


def root_faults(root):
    """The page that a server shows first, and where it leads."""
    page = root / "index.html"
    if not page.exists():
        return ["there is no index.html at the root"]
    target = re.search(r'url=([^"]+)"', page.read_text())
    if not target or not (root / target[1]).exists():
        return ["index.html at the root leads nowhere"]
    return []


def page_faults(root, page):
    text = page.read_text()
    right = re.search(r'<div class="copyright">(.*?)</div>', text, re.DOTALL)
    holder = shown(right[1]).replace("Copyright", "") if right else ""
    if not re.search(r"[a-z]", holder):
        yield "has an empty copyright"
    styles = [(page.parent / link.partition("?")[0]).resolve()
              for link in re.findall(r'<link rel="stylesheet"[^>]* href="([^"]+)"', text)]
    style = (root / STYLE).resolve()
    if style not in styles or "pre-wrap" not in style.read_text():
        yield "cuts long lines of code off at its right edge"


def shown(text):
    """The words of a page without its tags."""
    return html.unescape(re.sub(r"<[^>]*>", "", text))


def main():
    found = faults(Path(sys.argv[1]))
    for sentence in found:
        print(sentence)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
