"""tools/evidence between network namespaces: a live training is the simulated one."""

import pytest

pytest.importorskip("torch")


@pytest.fixture(autouse=True)
def paths(root, library, monkeypatch, network):
    for folder in ("tools", "bindings/python", "reference"):
        monkeypatch.syspath_prepend(str(root / folder))
    monkeypatch.setenv("GQSGD_LIBRARY", str(library))


@pytest.mark.timeout(300)
def test_a_live_training_of_floats_takes_the_steps_of_the_simulation():
    from evidence_lib import live
    from evidence_lib.training import steps_to_quality

    setting = live.Setting("clicks", "1gbit", 5)
    run = live.measure(setting, "float32")
    simulated = steps_to_quality("clicks", "float32", live.HOSTS, live.SEED)
    assert [step for step, _, _ in run["curve"]] == [step for step, _ in simulated["curve"]]
    for (_, _, loss), (_, expected) in zip(run["curve"], simulated["curve"], strict=True):
        assert loss == pytest.approx(expected, abs=2e-3)  # sums in another order
    live_s, composed_s = live.times_to_quality(run, simulated, 0.597)
    assert live_s > 0.005 * simulated["steps"] and composed_s > 0.005 * simulated["steps"]
