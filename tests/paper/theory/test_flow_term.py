import numpy as np
import pytest
import torch
from numpy.random import RandomState

from feddecorr.loss.decorrelation import Normalization, feddecorr
from feddecorr.paper.theory.flow_term import decorrelation_term


@pytest.mark.parametrize("normalization", ["paper", "released"])
def test_the_term_is_the_gradient_of_the_project_s_loss(normalization: Normalization) -> None:
    """Differences of N·β·L along a random direction."""
    stream = RandomState(0)
    z, direction = stream.normal(size=(4, 9)), stream.normal(size=(4, 9))
    step = 1e-6

    def loss(at: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> float:
        return 9 * 0.3 * feddecorr(torch.from_numpy(at.T.copy()), normalization).item()

    slope = (loss(z + step * direction) - loss(z - step * direction)) / (2 * step)
    found = decorrelation_term(0.3, normalization)(z)
    assert (found * direction).sum() == pytest.approx(slope, rel=1e-6)
