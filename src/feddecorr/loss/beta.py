"""One strength, many betas: the same FedDecorr loss in other scales, at other batch sizes and widths."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from feddecorr.errors import UserError, nearest

FEWEST_SAMPLES, FEWEST_DIMENSIONS = 3, 2
"""Of two samples every correlation is ±1: the loss is a constant. One dimension has no correlation with another."""

SCALES: dict[str, Callable[[int, int], float]] = {
    "paper": lambda _, d: (d - 1) / d,
    "released": lambda n, _: (n - 1) ** 2 / n,
}
"""By which each scale multiplies the mean squared correlation of two different features, from n samples and d."""

OTHER_LOSSES = {
    "rows": "it scales each sample to length 1 in place of each feature to deviation 1, and sums: another function",
    "decov": "it is of covariances and grows with the fourth power of the representations' scale",
    "structured_decov": "it is of covariances and grows with the fourth power of the representations' scale",
    "singular": "it is of covariances and grows with the fourth power of the representations' scale",
    "vicreg_covariance": "it is of covariances and grows with the fourth power of the representations' scale",
    "logdet": "its slope is another function of the correlations, not a multiple",
    "spectral_entropy": "its slope is another function of the spectrum, not a multiple",
}
"""Losses that go by similar names, and why no factor leads from or to them."""


@dataclass(frozen=True)
class LossScale:
    """How a FedDecorr loss was computed: its normalization, samples in a batch, and the representation's width."""

    normalization: str
    batch: int
    dimensions: int

    def __post_init__(self) -> None:
        if self.normalization in OTHER_LOSSES:
            raise UserError(f"'{self.normalization}' cannot be translated: {OTHER_LOSSES[self.normalization]}")
        if self.normalization not in SCALES:
            raise UserError(f"there is no scale '{self.normalization}': {nearest(self.normalization, SCALES)}")
        if self.batch < FEWEST_SAMPLES:
            raise UserError(
                f"a batch of {self.batch} cannot be translated: of fewer than {FEWEST_SAMPLES} samples the loss is a "
                "constant, whatever beta is"
            )
        if self.dimensions < FEWEST_DIMENSIONS:
            raise UserError(f"representations have at least {FEWEST_DIMENSIONS} dimensions, not {self.dimensions}")

    @property
    def weight(self) -> float:
        """What beta = 1 weighs: the factor before the mean squared correlation of two different features."""
        return SCALES[self.normalization](self.batch, self.dimensions)


def convert_beta(beta: float, source: LossScale, target: LossScale) -> float:
    """Return the beta that weighs correlations in the target scale as this beta does in the source scale.

    Both losses are then the same function of the correlation matrix but for a constant, and have the same gradient.
    Between batch sizes that holds of the correlations themselves; what chance adds to their squares, about 1/n, is
    a batch's own.
    """
    if not math.isfinite(beta) or beta < 0:
        raise UserError(f"beta is a number that is not negative, not {beta}")
    return beta * source.weight / target.weight
