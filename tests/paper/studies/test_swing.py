import pytest
from made_up import summary

from feddecorr.paper.studies.beyond import mean_swing


def test_the_swing_is_the_mean_change_over_the_last_ten_steps() -> None:
    """By hand: ups and downs do not cancel, and what was before does not count."""
    assert mean_swing(summary(accuracy=[0.5, 0.6, 0.4])) == pytest.approx(0.15)
    early = [0.0, 1.0] * 5
    assert mean_swing(summary(accuracy=[*early, *([0.5, 0.7] * 6)])) == pytest.approx(0.2)
    assert mean_swing(summary(accuracy=[0.3] * 12)) == 0


def test_one_round_does_not_swing() -> None:
    assert mean_swing(summary(accuracy=[0.5])) is None
