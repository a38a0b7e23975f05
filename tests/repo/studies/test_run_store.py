"""tools/study_lib/run_store.py: what is there is not run again, another setting is an error."""

import pytest


@pytest.fixture
def store_class(root, monkeypatch):
    monkeypatch.syspath_prepend(str(root / "tools"))
    from study_lib.run_store import RunStore

    return RunStore


def test_a_run_that_fails_keeps_those_before_it_and_is_run_again(store_class, tmp_path):
    path, calls = tmp_path / "folder" / "runs.json", []

    def run(key, fails=False):
        calls.append(key)
        if fails:
            raise ValueError(key)
        return {"loss": len(calls)}

    first = store_class(path, {"steps": (1, 2)})
    with pytest.raises(ValueError, match="b"):
        first.fill({"a": lambda: run("a"), "b": lambda: run("b", fails=True)})
    again = store_class(path, {"steps": [1, 2]})
    again.fill({"a": lambda: run("a"), "b": lambda: run("b"), "c": lambda: run("c")})
    assert calls == ["a", "b", "b", "c"]
    assert store_class(path, {"steps": [1, 2]}).results == {
        "a": {"loss": 1}, "b": {"loss": 3}, "c": {"loss": 4}}


def test_another_setting_names_both(store_class, tmp_path):
    path = tmp_path / "runs.json"
    store_class(path, {"steps": 1}).fill({"a": lambda: 0})
    with pytest.raises(SystemExit, match="'steps': 1.*'steps': 2"):
        store_class(path, {"steps": 2})
