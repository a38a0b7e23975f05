"""Sphinx over this repository's Markdown, which stays where it is; tools/build_docs runs it."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(Path(__file__).parent))

import reference  # noqa: E402  (beside this file)

reference.write(ROOT, ROOT / "build" / "docs" / "reference")

project = "libgqsgd"
author = copyright = "libgqsgd contributors"
version = release = reference.version(ROOT)
root_doc = "docs/site/index"
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
include_patterns = ["docs/*.md", "docs/**/*.md", "bindings/julia/README.md", "CHANGELOG.md",
                    "CONTRIBUTING.md", "README.md", "SECURITY.md", "build/docs/reference/*.md"]
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]
highlight_language = "text"
smartquotes = False  # quotes belong to code here
html_theme = "furo"
html_title = f"libgqsgd {release}"
html_show_sphinx = False
html_static_path = ["static"]
html_css_files = ["site.css"]
html_extra_path = ["extra"]  # index.html at the root, which leads to root_doc
# Pages link to files and folders of the repository, which are no pages of the site.
suppress_warnings = ["myst.xref_missing"]
