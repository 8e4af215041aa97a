"""Features that die in training: the share of them, and a warning in words."""

from __future__ import annotations

import warnings
from collections.abc import Callable

from torch import Tensor

RISE = 0.1
"""A share of all features that counts: that many more than at the start must be dead, twice in a row."""


class DyingFeatures(UserWarning):
    """Features stop to vary in training, and FedDecorr takes them for uncorrelated."""


class DyingWatch:
    """Compares shares of dead features with that at the start, and warns once when they have risen.

    `advice` ends the warning: it names the option that helps, as those set it who are warned. `start` finds out the
    share at the start, if that is ever asked for; without it, the first share that is seen is that at the start.
    """

    def __init__(self, advice: str, start: Callable[[], float] | None = None) -> None:
        self._advice = advice
        self._find = start
        self._start: float | None = None
        self._risen = False
        self._told = False

    def see(self, share: float) -> None:
        """Take the next share; one that is high by chance, as on a batch of one class, is not a reason to warn."""
        if self._told:
            return
        if self._start is None and (self._find is None or share >= RISE):
            self._start = share if self._find is None else self._find()
        risen = self._start is not None and share >= self._start + RISE
        if risen and self._risen:
            self._told = True
            warnings.warn(
                f"{100 * share:.0f} % of the features of the representation do not vary any more "
                f"({100 * (self._start or 0):.0f} % at the start): they are dying. To FedDecorr a feature that never "
                "varies is uncorrelated, and where nothing is normalized before the representation it lowers its loss "
                f"by killing features: {self._advice}",
                DyingFeatures,
                stacklevel=3,
            )
        self._risen = risen


def dead_share(z: Tensor) -> float:
    """Return the share of the features of a batch of shape (n, d) that are the same in all its samples."""
    return float((z == z[0]).all(0).double().mean())
