"""tools/gpu_model: what it reads in machine code, and how it predicts from that.

Numbers are made up.
"""

import pytest

LINES = """
.L_x_0:
/*0000*/ LDG.E.128.CONSTANT R4, desc[UR4][R2.64] ;
/*0010*/ @P0 LDG.E.128 R8, desc[UR4][R2.64+0x200] ;
/*0020*/ IMAD.WIDE R12, R14, 0x10, R16 ;
/*0030*/ FADD R4, R4, R8 ;
/*0040*/ LDG.E.U8 R20, desc[UR4][R12.64] ;
/*0050*/ STG.E desc[UR4][R2.64], R20 ;
.L_x_1:
/*0060*/ LDG.E.128 R24, desc[UR4][R2.64] ;
/*0070*/ NOP ;
""".strip().splitlines()


@pytest.fixture
def model(root, monkeypatch):
    monkeypatch.syspath_prepend(str(root / "tools"))
    from gpu_lib import machine_code
    from gpu_lib.model import kernels, page, predict
    return {"machine_code": machine_code, "kernels": kernels, "page": page, "predict": predict}


def code(model, **changes):
    fields = {"threads": 256, "registers": 64, "shared_bytes": 0, "bytes_under_way": 16,
              "pipes": {"alu": 0.5, "fma": 0.5}, "growth": 1.0}
    return model["kernels"].Code(**{**fields, **changes})


def test_loads_before_the_first_use_are_under_way_together(model):
    assert model["machine_code"].bytes_under_way(LINES) == 32
    assert model["machine_code"].bytes_under_way(LINES[6:]) == 16, "a jump comes between"
    used_at_once = [LINES[0], LINES[1], LINES[4], LINES[2]]
    assert model["machine_code"].bytes_under_way(used_at_once) == 16


def test_fillers_are_no_instructions(model):
    assert len(model["machine_code"].instructions(LINES)) == 7


@pytest.mark.parametrize("changes, warps", [
    ({}, 32), ({"registers": 33}, 48), ({"registers": 128}, 16), ({"shared_bytes": 75 * 1024}, 24),
    ({"registers": 16}, 64), ({"threads": 32, "registers": 16}, 32)])
def test_warps_at_once_are_those_that_registers_and_shared_memory_let(model, changes, warps):
    predict = model["predict"]
    assert predict.warps_at_once(predict.Device(), code(model, **changes)) == warps


def test_the_longest_of_three_times_decides(model):
    predict, run = model["predict"], model["kernels"].Run
    device = predict.Device()
    memory = predict.predict(device, code(model), run("k", 1000, 10**9, 10**9))
    assert memory.limit == "memory"
    assert memory.seconds == pytest.approx(2e9 / device.bandwidth)
    slow = predict.predict(device, code(model, pipes={"slow": 1.0}), run("k", 10**9, 10**6, 0))
    assert slow.limit == "instructions"
    assert slow.seconds == pytest.approx(2e9 / (device.processors * device.clock_hz))
    few = code(model, registers=255, bytes_under_way=1)
    assert predict.predict(device, few, run("k", 1000, 10**9, 0)).limit == "latency"


def test_a_target_that_is_missed_is_said(model):
    kernels = model["kernels"]
    runs = (kernels.Run("k", 10**6, 4 * 2**20, 2**20),)
    formats = model["page"]._CALLS
    cases = [kernels.Case(stage, form, 5.0, 0.9, 2**20, runs)
             for stage in ("norm", "quantize", "reduce_many n=8", "dequantize")
             for form in formats]
    launches = {"paper": 9, "blocks": 12}
    fine = model["page"].page(cases, {"k": code(model)}, launches)
    assert "missed" not in fine and "| `blocks-8` | 8 | 8 devices |" in fine
    wide = {"k": code(model, growth=100.0)}
    assert "0.90 missed" in model["page"].page(cases, wide, launches)
