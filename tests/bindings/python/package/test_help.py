"""What help() shows: short, with the presets, and a docstring on everything that users call."""

import ast
import inspect
import pydoc
import re
from pathlib import Path

import gqsgd
import pytest

LINES_MAX = 150
PUBLIC = {name: value for name, value in vars(gqsgd).items()
          if not name.startswith("_") and not inspect.ismodule(value) and name != "PRESETS"}


def shown():
    return pydoc.render_doc(gqsgd, renderer=pydoc.plaintext)


def test_help_of_the_package_is_short():
    assert len(shown().splitlines()) < LINES_MAX


def test_help_names_each_preset_with_what_it_is_for():
    for preset, use in gqsgd.PRESETS.items():
        assert re.search(rf"^ +{preset} +{re.escape(use)}$", shown(), re.MULTILINE), preset


def test_help_names_each_function_and_class():
    """Errors are one line; help("gqsgd.errors") has them all."""
    words = set(re.findall(r"\w+", shown()))
    errors = {name for name, value in PUBLIC.items()
              if inspect.isclass(value) and issubclass(value, gqsgd.GqsgdError)}
    assert len(PUBLIC) > 40
    assert set(PUBLIC) - errors - words == set()


def methods(owner):
    return {f"{owner.__name__}.{name}": value for name, value in inspect.getmembers(owner)
            if not name.startswith("_") and (callable(value) or isinstance(value, property))
            and not hasattr(BaseException, name) and not hasattr(dict, name)}


@pytest.mark.parametrize("name", PUBLIC)
def test_what_is_public_has_a_docstring(name):
    value = PUBLIC[name]
    entries = {name: value, **(methods(value) if inspect.isclass(value) else {})}
    bare = [entry for entry, each in entries.items() if not inspect.getdoc(each)]
    assert bare == []


def test_type_variables_have_assignments_of_their_own():
    """Of those in a tuple type checkers know nothing, and functions lose their types."""
    for path in Path(gqsgd.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Tuple):
                made = {getattr(each.func, "id", "") for each in node.value.elts
                        if isinstance(each, ast.Call)}
                assert not made & {"TypeVar", "ParamSpec"}, f"{path}:{node.lineno}"
