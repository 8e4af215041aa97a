import torch
from plain import number, same, update

from feddecorr.core.states import Mean, extrapolate
from feddecorr.methods import mean_weights


def test_means_are_weighted_by_examples() -> None:
    """(2·1 + 3·6 + 5·2) / 10 = 3."""
    updates = [update(0, 2, number(1.0)), update(7, 3, number(6.0)), update(3, 5, number(2.0))]
    assert torch.allclose(mean_weights(updates)["w"], number(3.0)["w"])


def test_the_mean_of_equals_is_their_value_to_the_last_bit() -> None:
    """Also with weights that have no exact binary form."""
    mean = Mean()
    for weight in (0.1, 0.7, 1e-9, 1e9 / 3):
        mean.add(number(1 / 3, 1e-30), weight)
    assert same(mean.value, number(1 / 3, 1e-30))


def test_of_counters_the_largest_is_kept() -> None:
    """They stay integers."""
    mean = Mean()
    for count in (3, 9, 4):
        mean.add({"count": torch.tensor(count)}, 1.0)
    assert same(mean.value, {"count": torch.tensor(9)})


def test_extrapolation_by_one_is_the_mean_to_the_last_bit_and_by_two_goes_as_far_again() -> None:
    """From 1 over 4 to 7."""
    assert same(extrapolate(number(1e9), number(1 / 3), 1.0), number(1 / 3))
    assert same(extrapolate(number(1.0), number(4.0), 2.0), number(7.0))
