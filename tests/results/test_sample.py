import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from feddecorr.results.sample import Sample, half_width

NUMBERS = st.lists(st.floats(-100, 100), min_size=2, max_size=20).filter(lambda values: max(values) > min(values) + 0.1)


@given(NUMBERS)
def test_the_interval_is_that_of_students_t(values: list[float]) -> None:
    """As scipy computes it from the mean's standard error."""
    sample = Sample(dict(enumerate(values)))
    low, high = stats.t.interval(0.95, len(values) - 1, loc=sample.mean, scale=stats.sem(values))
    assert (sample.low, sample.high) == pytest.approx((low, high), rel=1e-6, abs=1e-6)


def test_of_one_seed_nothing_is_known_but_itself() -> None:
    """Its interval has no ends."""
    sample = Sample({3: 0.5})
    assert sample.mean == 0.5
    assert (sample.low, sample.high) == (-math.inf, math.inf)


def test_differences_are_taken_over_the_seeds_that_both_have() -> None:
    """Whatever their order."""
    assert Sample({0: 5.0, 2: 7.0, 1: 1.0}).minus(Sample({2: 4.0, 1: 3.0, 9: 0.0})).values == {2: 3.0, 1: -2.0}


def test_more_seeds_make_the_interval_shorter() -> None:
    """At the same deviation; from two seeds on it has an end."""
    widths = [half_width(1.0, count) for count in range(1, 50)]
    assert widths[0] == math.inf
    assert widths == sorted(widths, reverse=True)
