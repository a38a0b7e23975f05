"""schedule="auto" with constants: whatever is fastest, its error stays near that of direct."""

import gqsgd
import numpy as np
import pytest

PRESETS = ["blocks-8", "rotated-8", "rotated-4-8", "rotated-4", "relative-8", "paper-gl8",
           "paper-ge8", "paper-gl4", "paper-ge4", "blocks-8,rescale=false", "blocks-8,bits=4"]
COUNT = 4096
RATIO_MAX = 1.5  # kErrorRatioMax of src/plan/error_ratio.h

LAYOUTS = {
    "2 of 2": [0, 0, 1, 1],
    "1 and 3": [0, 1, 1, 1],
    "2 of 4": [0, 0, 0, 0, 1, 1, 1, 1],
    "3 and 5": [0, 0, 0, 1, 1, 1, 1, 1],
    "a pair and 6": [0, 0, 1, 2, 3, 4, 5, 6],
    "2 of 8": [0] * 8 + [1] * 8,
    "1 and 15": [0] + [1] * 15,
    "4 of 4": [0, 1, 2, 3] * 4,
}

# Between nodes a byte takes so long that a hierarchy is faster than direct; in the other one a
# message, so that a tree is.
SLOW_BETWEEN_NODES = "byte_ns = 10\nnode_byte_ns = 0.01\nnode_latency_ns = 10\n"
SLOW_MESSAGES = "latency_ns = 1e6\nmessage_ns = 1e6\nbyte_ns = 1e-3\n"


def gradients(kind, ranks):
    """A common part and noise of each rank: equal, one much smaller than the other, heavy tails."""
    generator = np.random.default_rng(ranks)
    common, noise = generator.standard_normal(COUNT), generator.standard_normal((ranks, COUNT))
    values = {
        "both": common / 2 + noise,
        "noise": noise,
        "common": 4 * common + noise,
        "heavy": np.exp(generator.standard_normal(COUNT)) * (common / 2 + noise),
    }[kind]
    return list(values.astype(np.float32))


def errors(q, arrays, **options):
    """Of auto, which may not leave out codes, and of direct."""
    auto = gqsgd.expected_error(q, arrays, draws=4, uncompressed="never", **options)
    return auto, gqsgd.expected_error(q, arrays, schedule="direct", draws=4)


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_auto_on_nodes_does_not_multiply_the_error(preset, layout, tmp_path):
    costs = tmp_path / "costs"
    costs.write_text(SLOW_BETWEEN_NODES)
    q, nodes = gqsgd.Quantizer(preset), LAYOUTS[layout]
    for kind in ("both", "noise", "common", "heavy"):
        auto, direct = errors(q, gradients(kind, len(nodes)), costs=costs, nodes=nodes)
        assert auto < RATIO_MAX * direct, kind


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("ranks", [2, 3, 4, 8, 16])
def test_auto_does_not_multiply_the_error_by_chains(preset, ranks, tmp_path):
    costs = tmp_path / "costs"
    costs.write_text(SLOW_MESSAGES)
    for kind in ("both", "noise", "common", "heavy"):
        auto, direct = errors(gqsgd.Quantizer(preset), gradients(kind, ranks), costs=costs)
        assert auto < RATIO_MAX * direct, kind


def test_auto_takes_a_hierarchy_where_the_error_bears_it(tmp_path):
    costs = tmp_path / "costs"
    costs.write_text(SLOW_BETWEEN_NODES)
    q, nodes = gqsgd.Quantizer("paper-gl8"), LAYOUTS["2 of 4"]
    arrays, options = gradients("both", len(nodes)), {"nodes": nodes, "uncompressed": "never"}
    auto, direct, hierarchical = (
        gqsgd.simulate(arrays, q, schedule=schedule, costs=costs, **options)
        for schedule in ("auto", "direct", "hierarchical")
    )
    np.testing.assert_array_equal(auto, hierarchical)
    assert np.any(auto != direct)
