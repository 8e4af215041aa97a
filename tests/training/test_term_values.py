import math

import pytest
import torch

from feddecorr.errors import RunError
from feddecorr.training.client import TermSums


def filled(*steps: list[list[float]]) -> TermSums:
    """Return a tally of the terms a and b; a step is a list of passes with the values of both."""
    tally = TermSums(["a", "b"])
    for passes in steps:
        for values in passes:
            tally.add([torch.tensor(value) for value in values])
        tally.end_step()
    return tally


def test_means_are_over_all_passes() -> None:
    """Also where a step has several, as a method's may."""
    tally = filled([[1, 10], [2, 20]], [[3, 30], [6, 60]], [[5, 50], [7, 70]])
    assert tally.means(0, 3) == {"a": 4.0, "b": 40.0}
    assert tally.epochs(0, [1, 2]) == {"a": [1.5, 5.25], "b": [15.0, 52.5]}


def test_of_several_clients_each_has_its_own_means() -> None:
    """A client that is done before the others is not counted on."""
    tally = TermSums(["a"])
    for values in ([1.0, 2.0, 3.0], [3.0, 4.0], [8.0]):
        tally.add([torch.tensor(values)])
        tally.end_step()
    assert [tally.means(client, steps)["a"] for client, steps in enumerate([3, 2, 1])] == [4.0, 3.0, 3.0]
    assert tally.epochs(0, [1, 2]) == {"a": [1.0, 5.5]}


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_term_that_is_not_finite_is_named(value: float) -> None:
    with pytest.raises(RunError, match=rf"the term 'b' became {value}"):
        filled([[1, 2]], [[1, value]]).means(0, 2)
