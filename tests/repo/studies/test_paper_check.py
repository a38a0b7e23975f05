"""tools/paper_check.py: what does not hold in the paper does not, and the page has its numbers."""

from fractions import Fraction

import pytest


@pytest.fixture
def check(load_tool, library):
    return load_tool("paper_check.py")


def test_a_sum_of_bytes_wraps_and_the_library_does_not(check):
    wrapped, mean = check.wrapped_sum()
    assert wrapped == 4 * 127 - 512 and mean == pytest.approx(1, abs=1e-6)


def test_equal_ranks_reach_zero_along_a_ring(check):
    """Every reduction has to double: with probability 1, 1/2, 1/4, .."""
    assert check.ring_zero_probability(2) == 0
    assert check.ring_zero_probability(4) == Fraction(1, 2) * Fraction(1, 4)
    assert check.ring_zero_probability(8) > Fraction(1, 2**7)  # four of seven double
    least, mean = check.ring_means(4)
    assert least >= 0.5 and mean == pytest.approx(1, abs=0.05)


def test_bounds_of_the_paper_are_exceeded_and_the_library_s_hold(check):
    found, paper, bound = check.nonzero_codes()
    assert paper < found < bound
    found, paper, bound = check.three_equal_ranks()
    assert paper < found < bound
    assert check.iteration_factors()[0] == pytest.approx(1.2, abs=0.01)


def test_the_page_has_these_rows(check, root):
    page = (root / "docs/results/paper.md").read_text()
    for cells in check.rows():
        assert "| " + " | ".join(cells) + " |" in page
