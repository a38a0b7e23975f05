"""gqsgd-plan: its totals are those of its moves, its picture and predictions are there, and what is
wrong is refused in a sentence."""

import csv
import re
import subprocess
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def plan(build_directory):
    """plan(option...) -> the finished run."""
    def run(*options):
        return subprocess.run([build_directory / "tools/gqsgd-plan", *map(str, options)],
                              capture_output=True, text=True, timeout=60)

    return run


def rows_of(text):
    return list(csv.DictReader(text.splitlines(), delimiter="\t"))


@pytest.mark.parametrize("schedule", ["ring", "tree", "butterfly", "direct"])
def test_totals_are_those_of_the_moves(plan, schedule):
    call = ["--schedule", schedule, "--format", "paper-ge8", "--ranks", 5, "--count", 7000,
            "--chunk", 512]
    table = plan(*call).stdout
    totals = {int(rank): (int(messages), int(values)) for rank, messages, values in
              re.findall(r"^ +(\d+) +(\d+) +(\d+) +\d+ +\d+$", table, re.MULTILINE)}
    assert set(totals) == set(range(5))
    for rank in range(5):
        sends = [row for row in rows_of(plan(*call, "--moves", "--rank", rank).stdout)
                 if row["kind"] == "send"]
        assert totals[rank] == (len(sends), sum(int(row["value_count"]) for row in sends))


@pytest.mark.parametrize("count", [100, 1000, 7000])
@pytest.mark.parametrize("schedule, form", [("direct", "blocks-8"),
                                            ("ring", "paper-gl8,block=128")])
def test_norms_sent_are_those_of_the_moves(plan, schedule, form, count):
    """One for each block of 128 values, the last one of a call as well, which may be shorter."""
    call = ["--schedule", schedule, "--format", form, "--ranks", 3, "--count", count]
    sent = [int(norms) for norms in re.findall(r"^ +\d+ +\d+ +\d+ +(\d+) +\d+$",
                                               plan(*call).stdout, re.MULTILINE)]
    moves = [rows_of(plan(*call, "--moves", "--rank", rank).stdout) for rank in range(3)]
    assert sent == [sum(-(-int(row["value_count"]) // 128) for row in rows
                        if (row["kind"], row["content"]) == ("send", "norms")) for rows in moves]
    assert sum(sent) >= 2 * -(-count // 128)


@pytest.mark.parametrize("form", ["blocks-8", "paper-ge8"])
def test_a_long_call_takes_no_longer_than_a_short_one(plan, form):
    """A walk of all moves of 16 ranks would take minutes."""
    begin = time.monotonic()
    text = plan("--ranks", 16, "--count", "1000G", "--schedule", "direct", "--format", form).stdout
    assert time.monotonic() - begin < 20
    sent = [int(values) for values in re.findall(r"^ +\d+ +\d+ +(\d+) +\d+ +\d+$", text,
                                                 re.MULTILINE)]
    assert len(sent) == 16 and sum(sent) == 2 * 15 * 10**12


def test_nodes_make_a_hierarchy(plan):
    call = ["--schedule", "hierarchical", "--ranks", 4, "--count", 5000]
    moves = rows_of(plan(*call, "--nodes", "0:1:0:1", "--moves", "--rank", 1).stdout)
    assert {int(row["hop"]) for row in moves if row["kind"] == "reduce_many"} == {1, 2}
    text = plan(*call, "--nodes", "0:1:0:1").stdout
    assert "schedule hierarchical, 4 ranks" in text and "E ||G - mean||^2 <=" in text
    assert re.search(r"hierarchical +\d+\.\d", text), text
    flat = plan(*call).stdout
    assert "schedule direct, 4 ranks" in flat and "hierarchical" not in flat
    refused = plan(*call, "--nodes", "0:1")
    assert refused.returncode == 1 and "2 numbers for 4 ranks" in refused.stderr


def test_a_schedule_whose_messages_depend_on_values_is_refused(plan):
    refused = plan("--schedule", "sparse", "--ranks", 4, "--count", 5000)
    assert refused.returncode == 1 and "sends the codes that are not zero" in refused.stderr


def test_a_plan_has_times_an_error_and_a_picture(plan):
    text = plan("--ranks", 3, "--count", "1M").stdout
    assert re.search(r"ring +- +\d+\.\d", text), text  # blocks-8 needs direct
    assert re.search(r"direct +\d+\.\d[* ] +\d+\.\d", text)
    assert len(re.findall(r"\d\*", text)) == 1, "one choice"
    assert "E ||G - mean||^2 <=" in text
    assert re.search(r"^rank 2 +[nqrRd.]{84}$", text, re.MULTILINE)


def test_adaptive_widths_have_constants_of_their_own(plan, tmp_path):
    costs = tmp_path / "costs"

    def times(*lines):
        costs.write_text("\n".join(lines))
        return [direct_time_us(plan, "--ranks", 4, "--rate", "1gbit", "--costs", costs, "--format",
                               name)[0] for name in ("adaptive-4", "adaptive-6", "blocks-8")]

    fours, sixes, eights = times()
    assert fours < sixes < eights  # bytes are what takes time
    assert times("linear8.sum = 9 9 9")[:2] == [fours, sixes]
    slower = times("adaptive.sum = 99 99 99")
    assert slower[0] > fours and slower[1] > sixes and slower[2] == eights
    more = times("planes.sum = 99 99 99")
    assert more[0] == fours and more[1] > sixes


def test_costs_from_a_file_change_the_times(plan, tmp_path):
    costs = tmp_path / "costs"
    costs.write_text("latency_ns = 1e9\n")
    slow = plan("--costs", costs, "--schedule", "tree", "--format", "paper-ge8")
    assert re.search(r"direct +\d{7}\.", slow.stdout), slow.stdout
    costs.write_text("latency = 1e9\n")
    refused = plan("--costs", costs)
    assert refused.returncode == 1
    assert "line 1 of the costs" in refused.stderr


def direct_time_us(plan, *options):
    text = plan("--schedule", "direct", "--count", "10M", *options).stdout
    return float(re.search(r"^ +direct +(\d+\.\d)", text, re.MULTILINE)[1]), text


@pytest.mark.parametrize("rate", ["1gbit", "1Gbit/s", "1Gbits/s", "1G", "1g", "1000mbit", "1000M",
                                  "1e9bit", "0.001tbit", "1000000kbit"])
def test_a_rate_is_reported_as_people_say_it(plan, rate, tmp_path):
    costs = tmp_path / "costs"
    costs.write_text("byte_ns = 8\n")
    time_us, text = direct_time_us(plan, "--rate", rate)
    assert time_us == direct_time_us(plan, "--costs", costs)[0]
    assert "at 1000 Mbit/s" in text
    assert time_us > 5 * direct_time_us(plan, "--rate", "10G")[0]


def test_a_rate_replaces_the_link_of_the_costs_and_what_native_took_on_it(plan, tmp_path):
    costs = tmp_path / "costs"
    costs.write_text("byte_ns = 100\nnative_step_ns = 1\nnative_byte_ns = 1\n")
    assert re.search(r"native +- +\d", direct_time_us(plan, "--costs", costs)[1])
    time_us, text = direct_time_us(plan, "--costs", costs, "--rate", "200mbit")
    assert time_us == direct_time_us(plan, "--rate", "200mbit")[0]
    assert re.search(r"native +- +-", text)


def test_links_that_take_no_time_have_no_rate(plan):
    costs = ["--costs", "byte_ns=0;cpus=4"]
    assert "on links that take no time for bytes" in plan(*costs).stdout
    assert re.search(r"^  link: +no time for bytes$", plan("--advise", *costs).stdout, re.MULTILINE)


@pytest.mark.parametrize("rate", ["1", "fast", "1gbps", "1GB/s", "0gbit", "-1gbit", "infG", "nanG",
                                  "0x1G", "1 x", "1gbit/", "", "1bit", "9999999tbit"])
def test_a_rate_that_could_mean_anything_is_refused_with_what_is_accepted(plan, rate):
    run = plan("--rate", rate)
    assert run.returncode == 2
    assert f'"{rate}" is not a value' in run.stderr
    assert "200mbit, 1gbit, 1Gbit/s or 10G" in run.stderr


def rows_of_gpu_model():
    """(format, microseconds of NCCL's thread for an operation, of the call) of the calls of 8
    devices: by a communicator that blocks, then by one that does not."""
    page = (ROOT / "docs/results/gpu-model.md").read_text()
    rows = re.findall(r"^\| `(\S+)` \| 8 \| 8 devices \|.*\| (\d+) \| \d+ \| (\d+) \|$", page,
                      re.MULTILINE)
    assert len(rows) >= 6
    return [(form, thread_us, us) for form, *calls in rows
            for thread_us, us in zip((0, 85), calls, strict=True)]


@pytest.mark.parametrize("form, thread_us, expected_us", rows_of_gpu_model())
def test_times_over_nccl_are_those_of_the_page_of_gpus(plan, tmp_path, form, thread_us,
                                                       expected_us):
    costs = tmp_path / "costs"  # without what the page leaves out
    costs.write_text("device_latency_ns = 0\ndevice_message_ns = 0\n"
                     f"enqueue_nccl_ns = {1000 * (17 + thread_us)}\n")
    text = plan("--nccl", "--schedule", "direct", "--ranks", 8, "--count", 25 * 2**20 // 4,
                "--format", form, "--costs", costs).stdout
    time_us = float(re.search(r"^ +direct +(\d+\.\d)", text, re.MULTILINE)[1])
    assert time_us == pytest.approx(float(expected_us), rel=0.05)


def test_over_nccl_short_calls_are_its_own_allreduce_of_floats(plan):
    def chosen(count, form="blocks-8"):
        text = plan("--nccl", "--ranks", 8, "--count", count, "--format", form).stdout
        row = re.search(r"^ +(direct|native) .*\*.*$", text, re.MULTILINE)
        numbers = re.findall(r"[\d.]+\*?|-", row[0])
        return row[1], numbers.index(next(n for n in numbers if n.endswith("*")))

    assert chosen("10K") == ("native", 1)  # of codes, float32, bf16
    assert chosen("30M") == ("direct", 0)
    refused = plan("--nccl", "--shared-memory")
    assert refused.returncode == 2 and "different groups" in refused.stderr


def test_advice_over_nccl_leaves_out_what_devices_do_not_have(plan):
    text = plan("--nccl", "--advise", "--ranks", 8, "--count", "1G", "--compute", 100).stdout
    assert "take " in text and "bf16 " not in text and "AVX2" not in text


def test_advice_over_nccl_takes_rice_codes_on_slow_links_alone(plan):
    call = ["--nccl", "--advise", "--ranks", 8, "--count", "1G"]
    fast, take = advised(plan(*call, "--compute", 10).stdout)
    assert fast["rice-6"][1] > fast["none"][1] and not take.startswith("rice")
    assert advised(plan(*call, "--rate", "10gbit").stdout)[1] == "rice-4"


def test_a_timeline_is_what_pictures_are_drawn_of(plan):
    rows = rows_of(plan("--timeline", "--schedule", "direct", "--ranks", 2, "--count", 64,
                        "--chunk", 32, "--format", "paper-gl8").stdout)
    assert {row["kind"] for row in rows} >= {"quantize", "send", "reduce_many", "dequantize"}
    assert all(float(row["end"]) >= float(row["start"]) for row in rows)


def test_a_hundred_thousand_ranks(plan):
    run = plan("--ranks", 100000, "--count", "25M", "--format", "paper-ge8", "--rank", 77777)
    assert run.returncode == 0
    assert re.search(r"^ +77777 +\d+", run.stdout, re.MULTILINE)


def test_help_says_every_option(plan):
    run = plan("--help")
    assert run.returncode == 0
    for option in ("--format", "--schedule", "--ranks", "--count", "--costs", "--rate", "--nccl",
                   "--moves"):
        assert option in run.stdout


@pytest.mark.parametrize("options, code, sentence", [
    (["--ranks", 0], 2, '"0" is not a value'),
    (["--count", "many"], 2, '"many" is not a value'),
    (["extra"], 2, '"extra" is not an option'),
    (["--rank", 9], 2, "there is no rank 9 among 4 ranks"),
    (["--format", "paper-x"], 1, "preset \"paper-x\" is not known"),
    (["--schedule", "ring"], 1, "needs an owner that adds wide"),
    (["--costs", "/nowhere"], 1, "/nowhere cannot be read"),
    (["--costs", "/dev/zero"], 1, "/dev/zero cannot be read: it is a device"),
    (["--advise", "--format", "rice-4"], 2, "--advise compares presets of its own"),
    (["--advise", "--schedule", "tree"], 2, "--advise takes the cheapest schedule"),
    (["--compute", 100], 2, "--compute is of a training step, so of --advise"),
])
def test_what_is_wrong_is_reported(plan, options, code, sentence):
    run = plan(*options)
    assert run.returncode == code
    assert sentence in run.stderr


def advised(text):
    """({candidate: (milliseconds of allreduces, of the step)}, the one to take)."""
    rows = re.findall(r"^  (\S+) +(\d+\.\d) +(\d+\.\d) +\d+\.\d\dx", text, re.MULTILINE)
    return ({name: (float(call), float(step)) for name, call, step in rows},
            re.search(r"^take ([\w-]+):", text, re.MULTILINE)[1])


def test_advice_takes_the_least_error_that_is_nearly_as_fast(plan):
    call = ["--advise", "--ranks", 4, "--count", "6M", "--rate"]
    text = plan(*call, "1gbit", "--compute", 500).stdout
    rows, take = advised(text)
    assert list(rows) == ["none", "fp16-hook", "bf16", "blocks-8", "rice-6", "adaptive-6",
                          "rice-5", "adaptive-5", "rotated-4-8", "rice-4", "rotated-4",
                          "adaptive-4", "rice-3", "adaptive-3"]
    assert take == "blocks-8" and f"a step of {rows[take][1]:.1f} ms" in text
    assert rows["blocks-8"][1] <= 1.1 * rows["rice-4"][1] < rows["fp16-hook"][1]
    slow, take = advised(plan(*call, "100mbit", "--compute", 150).stdout)
    assert take == "rice-4"
    assert slow["none"][0] > 9 * rows["none"][0]
    hidden = plan(*call, "10gbit", "--compute", 3000).stdout
    assert advised(hidden)[1] == "none" and "float32 hides behind the compute" in hidden


def test_advice_takes_sixteen_bits_where_they_are_nearly_as_fast(plan):
    text = plan("--advise", "--ranks", 4, "--count", "25M", "--rate", "10gbit", "--compute",
                100).stdout
    assert advised(text)[1] == "fp16-hook" and "fp16_compress_hook: no library" in text


def test_advice_for_a_large_model_is_that_of_its_buckets(plan):
    """Predicted one by one, as many buckets would take minutes."""
    call = ["--advise", "--ranks", 64, "--count"]
    large, take = advised(plan(*call, "1000G").stdout)
    small, small_take = advised(plan(*call, "10G").stdout)
    assert take == small_take and list(large) == list(small)
    for name in large:
        assert large[name][0] == pytest.approx(100 * small[name][0], rel=1e-3)


@pytest.mark.parametrize("rate", ["5gbit", "10gbit", "25gbit"])
def test_advice_leaves_rice_codes_alone_on_fast_links(plan, rate):
    rows, take = advised(plan("--advise", "--ranks", 4, "--count", "25M", "--rate", rate).stdout)
    assert rows["rice-5"][1] > rows["blocks-8"][1] and not take.startswith("rice")


def test_advice_names_but_does_not_take_what_may_harm_the_loss(plan):
    text = plan("--advise", "--ranks", 4, "--count", "100M", "--rate", "100mbit").stdout
    rows, take = advised(text)
    assert min(rows, key=lambda name: rows[name][1]) == "adaptive-3" != take
    assert re.search(r"^adaptive-3 would make it .* watch the loss$", text, re.MULTILINE)


def test_advice_adds_to_the_compute_what_cannot_overlap(plan):
    first = 262144  # PyTorch's first bucket: 1 MiB
    call = ["--advise", "--ranks", 2, "--count", first + 2 * 6553600, "--rate", "1gbit",
            "--compute"]
    without, _ = advised(plan(*call, 0).stdout)
    for call_ms, step_ms in without.values():
        assert step_ms == pytest.approx(call_ms, abs=0.1)
    # Three buckets; none takes as long as the next one takes to be ready. The last is one of two
    # that are alike, and the first takes as much as its part of the values, or little more.
    behind, _ = advised(plan(*call, 9000).stdout)
    for name, (call_ms, step_ms) in behind.items():
        last_ms = call_ms * 6553600 / (first + 2 * 6553600)
        assert step_ms == pytest.approx(9000 + last_ms, rel=0.001), name


def test_the_page_shows_what_advice_prints(plan):
    page = (ROOT / "docs/COST.md").read_text()
    command, shown = re.search(r"^    gqsgd-plan (--advise .*)\n\n```\n(.*?)^```$", page,
                               re.MULTILINE | re.DOTALL).groups()
    assert plan(*command.split()).stdout == shown


@pytest.mark.parametrize("name", ["README.md", "docs/PRESETS.md", "docs/PYTORCH.md",
                                  "docs/TOOLS.md"])
def test_commands_of_pages_give_all_that_advice_asks_for(plan, name):
    commands = re.findall(r"^ *gqsgd-plan (--advise [^#\n]*)", (ROOT / name).read_text(),
                          re.MULTILINE)
    assert commands
    for command in commands:
        lines = re.findall(r"^  \w+: .*not given.*$", plan(*command.split()).stdout, re.MULTILINE)
        assert [line.split(":")[0] for line in lines] == ["  codec"]


GIVEN = {"weights": ["--count", "6M"], "ranks": ["--ranks", 8], "link": ["--rate", "1gbit"],
         "compute": ["--compute", 0], "codec": ["--costs", "byte_ns=0.8;cpus=4"]}


@pytest.mark.parametrize("given", GIVEN)
def test_advice_begins_with_what_was_not_given_and_how_to_give_it(plan, given):
    lines = dict(re.findall(r"^  (\w+): +(.*)$", plan("--advise", *GIVEN[given]).stdout,
                            re.MULTILINE))
    assert list(lines) == list(GIVEN)
    for name, line in lines.items():
        is_known = name == given or (name, given) == ("link", "codec")  # costs have a rate
        assert (f"not given: {GIVEN[name][0]}" in line) != is_known, line


def test_advice_without_compute_says_that_a_step_gains_less(plan):
    call = ["--advise", "--ranks", 4, "--count", "6M", "--rate", "1gbit"]
    sentence = "without --compute these are the allreduces alone"
    assert sentence in plan(*call).stdout
    assert sentence not in plan(*call, "--compute", 0).stdout


@pytest.mark.parametrize("options, sentence", [
    (["--ranks", 1], "a group of one rank sends nothing"),
    (["--count", 0], "a model of no weights sends nothing"),
])
def test_advice_where_nothing_is_sent_is_one_sentence(plan, options, sentence):
    done = plan("--advise", *options)
    assert done.returncode == 0 and re.fullmatch(rf"take none: {sentence} .*\n", done.stdout)


def test_python_marks_the_presets_that_advice_marks(plan, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "bindings/python"))
    import gqsgd

    remarks = dict(re.findall(r"^  ([\w-]+) .*x  (.*)$", plan("--advise").stdout, re.MULTILINE))
    for name, remark in remarks.items():
        if name != "fp16-hook":
            assert ("watch the loss" in gqsgd.PRESETS[name]) == ("watch the loss" in remark), name


def test_advice_names_what_to_take_with_half_a_processor(plan, tmp_path):
    """As the hosts of docs/results/adaptive.md had: 4 ranks on 2 processors with AVX2."""
    costs = tmp_path / "costs"
    costs.write_text("cpus = 2\nbyte_ns = 8\n")
    call = ["--advise", "--ranks", 4, "--count", 6553600]
    text = plan(*call, "--rate", "1gbit").stdout
    (half,) = re.findall(r"^if the compute .* half as much processor, take ([\w-]+):", text,
                         re.MULTILINE)
    assert advised(text)[1].startswith("rice") and not half.startswith("rice")
    assert advised(plan(*call, "--costs", costs).stdout)[1] == half


def test_the_model_has_the_times_of_ranks_that_share_processors(plan, tmp_path):
    page = (ROOT / "docs/results/adaptive.md").read_text()
    costs = tmp_path / "costs"
    costs.write_text("cpus = 2\n")
    table = page.partition("Zen 3 with AVX2, two of them virtual")[2].partition("\n\nThere")[0]
    for preset in ("blocks-8", "adaptive-4", "rice-4"):
        row = re.search(rf"^\| `{preset}`, over UCX \|(.*)\|$", table, re.MULTILINE)[1].split("|")
        for rate, column in (("1gbit", 1), ("200mbit", 4)):
            text = plan("--schedule", "direct", "--ranks", 4, "--count", 6553600, "--rate", rate,
                        "--format", preset, "--costs", costs).stdout
            time_us = float(re.search(r"^ +direct +(\d+\.\d)", text, re.MULTILINE)[1])
            assert time_us == pytest.approx(1000 * float(row[column]), rel=0.16)


@pytest.mark.parametrize("compute", ["-1", "fast", "10ms", "nan"])
def test_a_compute_time_that_is_none_is_refused(plan, compute):
    refused = plan("--advise", "--compute", compute)
    assert refused.returncode == 2 and compute in refused.stderr
