"""tools/gpu_model: what it reads in machine code, and how it predicts from that.

Numbers are made up.
"""

from dataclasses import replace

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
    from gpu_lib.model import fused, fused_page, kernels, measured, page, predict, stage_calls
    return {"machine_code": machine_code, "kernels": kernels, "page": page, "predict": predict,
            "fused": fused, "fused_page": fused_page, "stage_calls": stage_calls,
            "measured": measured}


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


FUSED_VALUES = 2**16


def fused_cases(model, form, ranks, norm_loads=0):
    """A byte for each code. A tile of 512 values takes 100 instructions of its warp, in a stage of
    sums too, and a block 800 beside."""
    kernels = model["kernels"]
    made = FUSED_VALUES // 512 * 100
    counts = {"norm": (made, 4, 0), "quantize": (made, 4 + norm_loads, 1),
              "reduce_many": (made // ranks, 1, 1 / ranks), "dequantize": (made, 1, 4),
              "beside": (800, 0, 0)}
    return [kernels.Case(f"fused {name} n={ranks}", form, 0, 0, FUSED_VALUES, (kernels.Run(
        "k", instructions, int(loads * FUSED_VALUES), int(stores * FUSED_VALUES)),))
        for name, (instructions, loads, stores) in counts.items()]


def fused_kernel(model, form="paper-gl8", ranks=8, norm_loads=0):
    sums = model["kernels"].Case("reduce_many n=8", form, 1, 0, 1, (
        model["kernels"].Run("sums", 1, 1, 1),))
    cases = [sums, *fused_cases(model, form, ranks, norm_loads)]
    codes = {"k": code(model, registers=128, bytes_under_way=64),
             "sums": code(model, bytes_under_way=32)}
    return model["fused"].kernels_in(cases, codes)[form, ranks]


def round_device(model, **changes):
    """Numbers by which one can calculate."""
    return replace(model["predict"].Device(), bandwidth=1e12, latency_s=1e-6, clock_hz=1e9,
                   link_bandwidth=1e11, peer_latency_s=2e-6, cache_latency_s=1e-7,
                   peer_flag_s=5e-7, warp_issue_cycles=2.0, **changes)


@pytest.mark.parametrize("ranks, devices, values, work", [
    (8, 8, 2**23, (128, 16, 2, 4096)),   # 2,048 tiles by 128 blocks, 256 of a shard
    (8, 8, 2**23 + 1, (128, 17, 3, 4096)),
    (8, 1, 2**23, (16, 128, 16, 4096)),  # 264 blocks at once, half of them, of 8 ranks
    (2, 1, 2**23, (66, 32, 16, 4096)),
    (8, 8, 2**12, (8, 1, 1, 512)),       # a tile of each shard
    (2, 2, 3 * 2**13, (6, 1, 1, 4096))])
def test_blocks_divide_the_tiles_of_all_shards(model, ranks, devices, values, work):
    fused = model["fused"]
    place = fused.Place(ranks, devices)
    found = fused.work_of(model["predict"].Device(), place, values, 2)
    assert (found.blocks, found.tiles, found.own_tiles, found.tile_values) == work


def test_a_barrier_is_two_fences_a_flag_and_words_beyond_the_first(model):
    fused, device = model["fused"], round_device(model)
    one, links = fused.Place(2, 1), fused.Place(8, 8)
    assert fused.barrier_s(device, one, 2) == pytest.approx(2e-6 + 2e-7)
    assert fused.barrier_s(device, links, 8) == pytest.approx(2e-6 + 5e-7)
    assert fused.barrier_s(device, links, 1024) == pytest.approx(2e-6 + 5e-7 + 3e-7)
    assert fused.barrier_s(device, links, 1025) == pytest.approx(2e-6 + 5e-7 + 4e-7)


def test_only_barriers_for_one_norm_and_for_sums_are_for_all_blocks(model):
    fused, device, place = model["fused"], round_device(model), model["fused"].Place(8, 8)
    work = fused.work_of(device, place, 2**23, 2)
    every, same, last = 2.8e-6, 2.5e-6, 2.8e-6 + 2e-7
    of_call = fused.barrier_times(device, fused_kernel(model), place, work)
    assert of_call == pytest.approx((every, same, last))
    of_blocks = fused.barrier_times(device, fused_kernel(model, "blocks-8"), place, work)
    assert of_blocks == pytest.approx((same, same, last))


def test_a_block_waits_for_the_loads_of_each_tile_and_executes_it(model):
    fused, device, place = model["fused"], round_device(model), model["fused"].Place(8, 8)
    time = fused.fused_time(device, fused_kernel(model), place, 2**23)
    tile_s = 2e-7  # 100 instructions, 2 cycles each
    stages = time.stages
    assert stages["norm"].warp_s == pytest.approx(16 * (1e-6 + tile_s))
    assert stages["quantize"].warp_s == pytest.approx(16 * (1e-6 + tile_s))
    # 8 codes of 16 bytes, 32 at a time, from peers; then 16 bytes, of 7 peers and of its own.
    assert stages["reduce_many"].warp_s == pytest.approx(2 * (4 * 2e-6 + tile_s))
    assert stages["dequantize"].warp_s == pytest.approx(16 * (15e-6 / 8 + tile_s))
    assert time.begin_s == pytest.approx(1e-6 + 2e-7), "100 instructions of a warp beside"


def test_bytes_take_the_bandwidth_of_memory_or_of_links(model):
    fused, device, kernel = model["fused"], round_device(model), fused_kernel(model)
    links = fused.fused_time(device, kernel, fused.Place(8, 8), 10**6).stages
    assert links["norm"].memory_s == pytest.approx(4e-6)
    assert links["norm"].links_s == links["quantize"].links_s == 0
    assert links["reduce_many"].memory_s == pytest.approx(1.125e-6)
    assert links["reduce_many"].links_s == pytest.approx(7 / 8 * 1e-5)
    assert links["dequantize"].links_s == pytest.approx(7 / 8 * 1e-5)
    one = fused.fused_time(device, kernel, fused.Place(8, 1), 10**6).stages
    assert one["dequantize"].memory_s == pytest.approx(8 * 5e-6), "ranks share the memory"
    assert one["dequantize"].links_s == 0


def test_instructions_of_a_processor_are_those_of_its_blocks(model):
    fused, kernel = model["fused"], fused_kernel(model)
    device = round_device(model)
    found = fused.fused_time(device, kernel, fused.Place(8, 8), 2**23).stages["norm"]
    assert found.issue_s == pytest.approx(16 * 8 * 100 / 4 / 1e9), "8 warps, 4 issues a cycle"
    four_at_once = replace(kernel, code=code(model, registers=64))
    small = fused.fused_time(replace(device, processors=64), four_at_once, fused.Place(2, 1), 2**23)
    # 64 blocks of each rank, with 32 tiles each, on 64 processors.
    assert small.stages["norm"].issue_s == pytest.approx(2 * 32 * 8 * 100 / 4 / 1e9)


def test_norms_of_peers_are_waited_for_where_codes_are_made(model):
    fused, device, place = model["fused"], round_device(model), model["fused"].Place(8, 8)
    kernel = fused_kernel(model, "blocks-8", norm_loads=0.5)
    found = fused.fused_time(device, kernel, place, 2**23).stages["quantize"]
    assert found.warp_s == pytest.approx(16 * (2e-6 + 2e-7))
    assert found.links_s == pytest.approx(7 / 8 * 0.5 * 2**23 / 1e11)
    one = fused.fused_time(device, fused_kernel(model, "blocks-8", 2, 0.5), fused.Place(2, 1), 8192)
    assert one.stages["quantize"].warp_s == pytest.approx(1e-6 + 2e-7)


def test_a_fused_kernel_takes_all_of_its_parts_and_a_call_its_hosts_too(model):
    fused, device = model["fused"], round_device(model)
    time = fused.fused_time(device, fused_kernel(model), fused.Place(8, 8), 2**12)
    stages = 1.2e-6 + 1.2e-6 + 8.2e-6 + 2.075e-6
    barriers = 2.5e-6 + 2.5e-6 + 2.7e-6  # of 64 words each at most
    assert time.seconds == pytest.approx(1.2e-6 + stages + barriers)
    assert fused.call_s(device, time.seconds) == pytest.approx(time.seconds + 5e-6 + 2.5e-6)


def test_float32_has_no_norm(model):
    fused, kernels = model["fused"], model["kernels"]
    kernel = fused_kernel(model)
    floats = replace(kernel, bits=32, stages={**kernel.stages, "norm": kernels.Run("k", 0, 0, 0)})
    found = fused.fused_time(round_device(model), floats, fused.Place(8, 8), 2**20).stages
    assert found["norm"].seconds == 0
    assert found["reduce_many"].warp_s == pytest.approx(16 * 2e-6 + 2e-7), "512 bytes, 32 at once"


def stage_calls(model):
    """Each stage 1 ns a value, and sums of 8 ranks 9."""
    found = {(stage, form): (model["kernels"].Case(stage, form, 1, 0, 1, ()),
                             model["predict"].Prediction(ns * 1e-9, 0, 0))
             for form in ("paper-gl8", "blocks-8")
             for stage, ns in (("norm", 1), ("quantize", 1), ("reduce_many n=8", 9),
                               ("dequantize", 1))}
    launches = {"paper": (6, 3), "blocks": (7, 5), "floats": (4, 2)}
    return model["stage_calls"].StageCalls(round_device(model), found, launches)


def test_calls_by_stages_and_copies_wait_for_hosts(model):
    calls, place = stage_calls(model), model["fused"].Place
    barriers, launches = 7 * 5e-6, 6 * 2.5e-6
    short = calls.by_copies_s("paper-gl8", place(8, 8), 8)
    assert short == pytest.approx(barriers + launches + 3 * 7 * 2.5e-6)
    longer = calls.by_copies_s("paper-gl8", place(8, 8), 10**7)
    assert longer == pytest.approx(barriers + 1e-2 * (3 + 9 / 8) + 2 * 7 / 8 * 1e7 / 1e11)
    assert calls.by_copies_s("paper-gl8", place(2, 1), 8) == pytest.approx(
        barriers + launches + 3 * 2.5e-6)
    shared = calls.by_copies_s("paper-gl8", place(2, 1), 10**6)
    assert shared == pytest.approx(1e-3 * (2 * 3 + 3) + 2 * 2 * 1e6 / 1e12), "codes are copied"
    blocks = calls.by_copies_s("blocks-8", place(8, 8), 8)
    assert blocks == pytest.approx(9 * 5e-6 + 7 * 2.5e-6 + 4 * 7 * 2.5e-6)


def test_calls_over_nccl_begin_their_kernels_and_exchanges(model):
    calls, place = stage_calls(model), model["fused"].Place(8, 8)
    assert calls.times("paper-gl8", place, 8) == pytest.approx((66e-6, 321e-6))
    busy = 1e-3 * (3 + 9 / 8) + 1.75e-5 + 6 * 1e-6 + 3 * 4e-6
    assert calls.times("paper-gl8", place, 10**6) == pytest.approx((busy, busy))
    assert calls.times("none", place, 10**8)[0] == pytest.approx(7e-3 + 4 * 1e-6 + 2 * 4e-6)


def test_the_longest_call_that_is_faster_is_found_to_an_eighth(model):
    up_to = model["fused_page"].faster_up_to
    assert up_to(lambda values: values < 10**6) == 15 * 2**16
    assert up_to(lambda values: False) == 0
    assert up_to(lambda values: True) == 2**26


def test_a_target_that_is_missed_is_said(model):
    kernels = model["kernels"]
    runs = (kernels.Run("k", 10**6, 4 * 2**20, 2**20),)
    formats = (*model["page"]._CALLS, "none")
    cases = [kernels.Case(stage, form, 5.0, 0.9, 2**20, runs)
             for stage in ("norm", "quantize", "reduce_many n=8", "dequantize")
             for form in formats]
    cases += [case for form in formats for ranks in (2, 4, 8)
              for case in fused_cases(model, form, ranks)]
    launches = {"paper": (6, 3), "blocks": (7, 5), "floats": (4, 2)}
    fine = model["page"].page(cases, {"k": code(model)}, launches)
    assert "missed" not in fine and "| `blocks-8` | 8 | 8 devices |" in fine
    assert " | 66 | " in fine and " | 321 | " in fine, "6 kernels, 3 operations of NCCL"
    assert "| fused " not in fine, "they are no stages"
    assert "| `none` | 8,388,608, beyond the limit |" in fine
    wide = {"k": code(model, growth=100.0)}
    assert "0.90 missed" in model["page"].page(cases, wide, launches)
    rows = [text.partition("| `blocks-8` | 8,388,608 |")[2].partition("\n")[0]
            for text in (fine, model["page"].page(cases, wide, launches))]
    assert rows[0] != rows[1], "instructions count in fused kernels, too"


REPORT = {"parts": [
    {"name": "test isa", "verdict": "ok", "said": "7 tests, 0 failed"},
    {"name": "bench fused", "verdict": "ok", "said": "",
     "printed": "# medians\nranks values format\n    2  1024  blocks-8   fused    37.9    18.4\n"}]}


def test_calls_are_read_from_what_their_bench_printed(model):
    assert model["measured"].calls_in(REPORT) == {("blocks-8", "2", "1024", "fused"): 37.9}


def test_the_measured_page_names_what_failed(model):
    failed = {"parts": [{"name": "test nccl", "verdict": "failed", "said": "more\n4 ranks hang"}]}
    assert model["measured"].verdict_of((REPORT, REPORT)) == "Every part of both was ok"
    said = model["measured"].verdict_of((REPORT, failed))
    assert "*test nccl* of the last failed" in said and "4 ranks hang" in said
