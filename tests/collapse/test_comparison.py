from functools import reduce
from operator import add

import numpy as np
import pytest
import torch
from scipy.linalg import subspace_angles
from torch import Tensor

from feddecorr.collapse.measures import Principal, compare, linear_cka, principal_angles
from feddecorr.collapse.statistics import CrossMoments, Moments
from feddecorr.errors import UserError


def draw(d: int, seed: int) -> Tensor:
    stream = torch.Generator().manual_seed(seed)
    mixing = torch.randn(d, d, generator=stream, dtype=torch.float64)
    return torch.randn(120, d, generator=stream, dtype=torch.float64) @ mixing + 4


def cka(x: Tensor, y: Tensor) -> float | None:
    return linear_cka(CrossMoments.of(x, y), Moments.of(x), Moments.of(y))


def test_cka_is_the_naive_formula_also_between_widths_and_in_parts() -> None:
    """‖XᵀY‖² / (‖XᵀX‖ ‖YᵀY‖) by numpy; statistics of parts add up."""
    x, y = draw(6, 0), draw(9, 1)
    a, b = (z.numpy() - z.numpy().mean(0) for z in (x, y))
    expected = np.linalg.norm(a.T @ b) ** 2 / (np.linalg.norm(a.T @ a) * np.linalg.norm(b.T @ b))
    assert cka(x, y) == pytest.approx(expected)
    parts = reduce(add, map(CrossMoments.of, x.split(13), y.split(13)))
    assert linear_cka(parts, Moments.of(x), Moments.of(y)) == pytest.approx(expected)


def test_cka_does_not_see_rotations_scales_and_shifts() -> None:
    """A representation is like itself, however it is turned, scaled or moved."""
    x = draw(6, 0)
    turn = torch.linalg.qr(draw(6, 3)[:6]).Q
    assert cka(x, 5 * x @ turn + 100) == pytest.approx(1)
    assert cka(x, torch.ones_like(x)) is None


def test_principal_angles_are_those_of_scipy() -> None:
    """Between the spaces of the strongest directions, smallest first."""
    one, other = Principal(Moments.of(draw(8, 0))), Principal(Moments.of(draw(8, 1)))
    expected = np.rad2deg(subspace_angles(one.directions[:, :3].numpy(), other.directions[:, :3].numpy()))[::-1]
    np.testing.assert_allclose(principal_angles(one, other, 3), expected, rtol=1e-7)


def test_a_model_is_at_no_angle_to_itself() -> None:
    """Also where cosines would round the angle to 1e-8."""
    same = Principal(Moments.of(draw(8, 0)))
    assert max(principal_angles(same, same, 4)) < 1e-12


def test_what_cannot_be_compared_is_none() -> None:
    """Other widths have no angles, other samples no CKA; other numbers of samples are refused."""
    one, other = Principal(Moments.of(draw(8, 0))), Principal(Moments.of(draw(5, 1)))
    found = compare("other", one, other, None)
    assert (found.linear_cka, found.principal_angles) == (None, None)
    with pytest.raises(UserError, match="120 and 100"):
        CrossMoments.of(draw(8, 0), draw(8, 0)[:100])
