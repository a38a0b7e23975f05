"""docs/site: nothing that users may call is missing from the reference pages, it is shown whole,
and a site that lacks something is found out."""

import ast
import re

import pytest


@pytest.fixture
def reference(root, monkeypatch):
    monkeypatch.syspath_prepend(str(root / "docs" / "site"))
    import reference

    return reference


@pytest.fixture
def check(root, monkeypatch):
    monkeypatch.syspath_prepend(str(root / "docs" / "site"))
    import check

    return check


def titles(page):
    """Names in headings; of a method or a module's function also the last part alone."""
    names = {name for line in re.findall(r"^##+ (.+)$", page, re.MULTILINE)
             for name in line.split(", ")}
    return names | {name.rpartition(".")[2] for name in names}


def test_every_function_of_the_headers_has_an_entry(root, reference):
    text = "".join(path.read_text() for path in (root / "include").glob("*.h"))
    declared = re.findall(r"^(?:const char \*|[a-z]\w* )(gqsgd_\w+)\(", text, re.MULTILINE)
    assert len(declared) > 50
    assert set(declared) - titles(reference.c_page(root)) == set()


def test_sections_prose_and_types_of_the_headers_are_in_the_reference(root, reference):
    page = reference.c_page(root)
    for found in ("### Communicators\n", "#### gqsgd_config\n", "#### gqsgd_op\n",
                  "#### gqsgd_comm_rank, gqsgd_comm_size\n", "Every rank makes the same calls",
                  "#define GQSGD_STATUS_TABLE(X)"):
        assert page.count(found) == 1, found


def test_every_name_that_python_exports_has_an_entry(root, reference):
    exported = reference._public_names(root)
    assert "Communicator" in exported and "HookState" in exported
    assert exported - titles(reference.python_page(root)) == set()


def test_every_name_that_julia_exports_has_an_entry(root, reference):
    text = (root / "bindings/julia/src/GQSGD.jl").read_text()
    lines = re.findall(r"^export (.*)$", text, re.MULTILINE)
    exported = {name for line in lines for name in line.split(", ")}
    assert "allreduce!" in exported
    page = reference.julia_page(root)
    starts = [rf"^\W*{re.escape(name)}(\(|\W*$|\.)" for name in exported]
    assert [start for start in starts if not re.search(start, page, re.MULTILINE)] == []


def test_every_class_that_users_make_shows_its_arguments(root, reference):
    page = reference.python_page(root)
    assert "```python\nQuantizer(preset_or_spec: str='', **fields: Any)\n```" in page
    assert "```python\nHookState(\n    quantizer: gqsgd.Quantizer | str='',\n" in page
    bases = "    ArrayCollectives,\n    SegmentCollectives,\n    NcclGroups,\n"
    assert f"```python\nclass Communicator(\n{bases}" in page
    assert "```python\nCommunicator.timeout_ms\n```" in page, "a property is not called"
    for block in re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL):
        if "(" in block and not block.startswith("class "):
            ast.parse(f"def {block.replace('.', '_', 1).strip()}: pass")
        assert max(map(len, block.splitlines())) <= reference.COLUMNS_MAX, block


def test_prose_wraps_and_what_stands_in_columns_stands(reference):
    text = """Adds `x` over
all ranks: a_b * c.

x: an array,
    of float32
q, seed: how gqsgd_norm rounds

Options:
    a=1   first
          more

    b=2   second
"""
    assert reference.markdown(text) == """Adds `x` over all ranks: a\\_b \\* c.

- `x`: an array, of float32
- `q, seed`: how `gqsgd_norm` rounds

Options:

```text
a=1   first
      more

b=2   second
```
"""


def test_docstrings_and_comments_are_mostly_prose(root, reference):
    """As blocks of code they were cut off at the right edge of the page."""
    for page in (reference.python_page(root), reference.c_page(root)):
        blocks = re.findall(r"^```text\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
        assert sum(map(len, blocks)) < len(page) / 8


PAGE = """<link rel="stylesheet" href="../_static/site.css?v=1">
<div class="copyright">Copyright &#169; its authors</div>
<pre>Quantizer(preset_or_spec: HookState( Communicator.process( gqsgd_allreduce( </pre>"""


@pytest.fixture
def site(tmp_path):
    """The least that is whole."""
    files = {"index.html": '<meta http-equiv="refresh" content="0; url=docs/a.html">',
             "docs/a.html": PAGE, "_static/site.css": "pre { white-space: pre-wrap; }"}
    for name in ("c", "python", "julia"):
        files[f"build/docs/reference/{name}.html"] = PAGE.replace("../_static", "../../../_static")
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_a_whole_site_has_no_faults(site, check):
    assert check.faults(site) == []


@pytest.mark.parametrize("file, old, new, fault", [
    ("index.html", "docs/a.html", "docs/none.html", "index.html at the root leads nowhere"),
    ("docs/a.html", "its authors", "", "docs/a.html has an empty copyright"),
    ("docs/a.html", "site.css", "other.css", "docs/a.html cuts long lines"),
    ("_static/site.css", "pre-wrap", "pre", "docs/a.html cuts long lines"),
    ("build/docs/reference/python.html", "HookState(", "", "python.html shows no signature"),
])
def test_a_fault_of_the_site_is_found(site, check, file, old, new, fault):
    text = (site / file).read_text()
    assert old in text
    (site / file).write_text(text.replace(old, new))
    assert any(sentence.startswith(fault) for sentence in check.faults(site))


def test_a_site_without_a_page_at_its_root_is_found(site, check):
    (site / "index.html").unlink()
    assert check.faults(site) == ["there is no index.html at the root"]
