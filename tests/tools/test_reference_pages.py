"""docs/site/reference.py: nothing that users may call is missing from the reference pages."""

import re

import pytest


@pytest.fixture
def reference(root, monkeypatch):
    monkeypatch.syspath_prepend(str(root / "docs" / "site"))
    import reference

    return reference


def titles(page):
    """Names in headings; of a method or a module's function also the last part alone."""
    names = {name for line in re.findall(r"^##+ (.+)$", page, re.MULTILINE)
             for name in line.split(", ")}
    return names | {name.rpartition(".")[2] for name in names}


def test_every_function_of_the_headers_has_an_entry(root, reference):
    text = "".join(path.read_text() for path in (root / "include").glob("*.h"))
    declared = re.findall(r"^GQSGD_API .*?(gqsgd_\w+)\(", text, re.MULTILINE)
    assert len(declared) > 50
    assert set(declared) - titles(reference.c_page(root)) == set()


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
