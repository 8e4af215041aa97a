"""The rules are the same for both answers."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import ttest_1samp

from feddecorr.paper.claims.claim import (
    POINT,
    DecisionRule,
    decide,
    does_not_increase,
    holm,
    increases,
    seeds_needed,
    stays_below,
    stays_within,
)
from feddecorr.results.sample import Sample

RULES = [increases(POINT), does_not_increase(POINT), stays_within(POINT), stays_below(POINT)]
INTERVALS = st.tuples(st.floats(-0.1, 0.1), st.floats(-0.1, 0.1)).map(sorted)


@pytest.mark.parametrize(
    ("low", "high", "answer"),
    [
        (0.001, 0.05, True),
        (0.001, 0.005, True),
        (-0.05, -0.001, False),
        (-0.005, 0.005, False),
        (-0.005, 0.02, None),
        (-0.05, 0.05, None),
    ],
)
def test_an_improvement(low: float, high: float, answer: bool | None) -> None:
    """True above zero; false if a whole point is excluded and zero is not; else nobody can tell."""
    assert increases(POINT)(low, high) is answer
    assert does_not_increase(POINT)(low, high) is (None if answer is None else not answer)


@pytest.mark.parametrize(
    ("low", "high", "answer"),
    [(-0.009, 0.009, True), (0.011, 0.02, False), (-0.02, -0.011, False), (0.005, 0.02, None), (-0.05, 0.05, None)],
)
def test_being_on_par(low: float, high: float, answer: bool | None) -> None:
    """True inside of the margin, false outside of it, on either side."""
    assert stays_within(POINT)(low, high) is answer


@given(INTERVALS)
def test_the_rules_are_symmetric(interval: list[float]) -> None:
    """On par is so from both sides; an improvement and its reverse are never both true."""
    low, high = interval
    assert stays_within(POINT)(low, high) is stays_within(POINT)(-high, -low)
    assert not (increases(POINT)(low, high) and increases(POINT)(-high, -low))
    assert (stays_below(POINT)(low, high) is True) == (stays_below(-POINT)(-high, -low) is False)


@pytest.mark.parametrize("rule", RULES)
@given(INTERVALS, st.floats(0, 1), st.floats(0, 1))
def test_a_shorter_interval_never_takes_an_answer_back(
    rule: DecisionRule, interval: list[float], left: float, right: float
) -> None:
    """Hence there is a number of seeds from which on it is decided."""
    low, high = interval
    cut_low, cut_high = sorted([low + left * (high - low), low + right * (high - low)])
    if rule is not RULES[0] and rule is not RULES[1] and rule(low, high) is not None:
        assert rule(cut_low, cut_high) is rule(low, high)
    assert rule(low, high) is None or rule(cut_low, cut_high) is not None


def test_few_seeds_cannot_tell() -> None:
    """However alike they are; nor can fewer than were declared."""
    assert decide(increases(POINT), Sample(dict.fromkeys(range(4), 0.5))) is None
    assert decide(increases(POINT), Sample(dict.fromkeys(range(5), 0.5))) is True
    assert decide(increases(POINT), Sample(dict.fromkeys(range(5), 0.5), declared=6)) is None


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_a_correction_for_many_questions_keeps_the_order_and_never_helps(p_values: list[float]) -> None:
    """The smallest p-value is multiplied by the number of questions, the largest counts as it is, if nothing before."""
    corrected = holm(p_values)
    assert all(after >= before for before, after in zip(p_values, corrected, strict=True))
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    assert corrected[order[0]] == min(1.0, len(p_values) * p_values[order[0]])
    assert [corrected[index] for index in order] == sorted(corrected)


def test_the_correction_is_that_of_holm() -> None:
    """An example by hand."""
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])


def test_the_p_value_is_that_of_scipy() -> None:
    """Student's t for one sample, two-sided."""
    values = [0.3, -0.1, 0.25, 0.4, 0.05]
    assert Sample(dict(enumerate(values))).p_value == pytest.approx(ttest_1samp(values, 0).pvalue)


@given(st.lists(st.floats(-0.05, 0.05), min_size=3, max_size=6))
def test_the_number_of_seeds_that_would_be_needed_decides(values: list[float]) -> None:
    """With the same mean and deviation; one fewer does not, unless that is what there is to begin with."""
    sample = Sample(dict(enumerate(values)))
    count = seeds_needed(increases(POINT), sample)
    if count is None or not math.isfinite(sample.deviation) or sample.deviation < 1e-6:
        return

    def decided(seeds: int) -> bool:
        half = seeds // 2
        spread = sample.deviation * math.sqrt((seeds - 1) / (2 * half))
        mirrored = [sample.mean - spread] * half + [sample.mean + spread] * half + [sample.mean] * (seeds % 2)
        return decide(increases(POINT), Sample(dict(enumerate(mirrored)))) is not None

    assert decided(count + 1)
    assert count == 3 or not decided(count - 2)
