"""A privacy loss distribution (PLD) accountant for the subsampled Gaussian mechanism.

The loss of an output is log(P/Q), where P and Q are its probabilities under two neighbouring sets of clients. The loss
of T rounds is a sum of T losses, so its distribution is a T-fold convolution, from which ε follows for any δ
(Koskela, Jälkö and Honkela, 2020). All rounding is towards more loss: the result is an upper bound.

- Poisson sampling, where a client is added or removed (Zhu, Dong and Wang, 2022): P is (1−q)·N(0, σ²) + q·N(1, σ²) and
  Q is N(0, σ²), or the reverse, the same in all rounds; the larger ε counts.
- A cohort of fixed size, where a client is replaced (Balle, Barthe and Gaboardi, 2018): the same with N(2, σ²), since
  the updates of two clients differ by up to twice the norm. The worse direction may differ between rounds, so a pair
  of distributions is used that dominates both.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.fft import irfft, rfft
from scipy.special import logsumexp, ndtr

from feddecorr.errors import UserError

Numbers = NDArray[np.floating[Any]]

CELLS = 1 << 16
"""Cells of the grid of losses: more of them change ε by less than a thousandth."""

COARSE = 1 << 12
"""Cells of the coarse grid that locates the sum of losses."""

NEGLIGIBLE = 1e-9
"""Fraction of δ that may lie beyond the grid; it counts as an infinite loss."""

ORDERS = np.logspace(-4, 4, 200)
"""Orders of the moments that locate the sum: Rényi orders minus 1."""

HALVINGS = 64


class NeighboringRelation(Enum):
    """Which sets of clients are neighbours, that is, hard to distinguish by the outputs."""

    ADD_OR_REMOVE = "add or remove one client"
    REPLACE = "replace one client"


SENSITIVITY = {NeighboringRelation.ADD_OR_REMOVE: 1.0, NeighboringRelation.REPLACE: 2.0}
"""Sensitivity of the sum of the clients' updates, in units of the clipping norm."""


def epsilon(rate: float, noise_multiplier: float, steps: int, delta: float, relation: NeighboringRelation) -> float:
    """Return ε after `steps` rounds with a sampling rate and a noise multiplier; never below 0."""
    if not steps:
        return 0.0
    try:
        reach = math.sqrt(2 * math.log(steps / (delta * NEGLIGIBLE)))
        mechanism = SubsampledGaussian(rate, SENSITIVITY[relation] / noise_multiplier, reach)
        with np.errstate(over="ignore", invalid="ignore"):
            found = max(_spent(one_round, mechanism.width, steps, delta) for one_round in mechanism.losses(relation))
    except (ArithmeticError, ValueError):  # Python's floats raise these where NumPy's become infinite
        found = math.inf
    if not math.isfinite(found):
        raise UserError(
            f"no epsilon can be computed for noise_multiplier={noise_multiplier:g}, rounds={steps} and delta={delta:g}:"
            " it is beyond all that protects, or delta too small for floating-point numbers"
        )
    return found


@dataclass(frozen=True)
class LossDistribution:
    """A distribution of losses: `masses` at the multiples of `step` from `first` on, and `infinite` at infinity."""

    step: float
    first: int
    masses: Numbers
    infinite: float

    @property
    def values(self) -> Numbers:
        """The finite losses."""
        return (self.first + np.arange(len(self.masses))) * self.step

    def log_moments(self, orders: Numbers) -> Numbers:
        """Return log E[exp(order·loss)] over the finite losses, for each order."""
        with np.errstate(divide="ignore"):
            logs, values = np.log(self.masses), self.values
        return np.array([logsumexp(logs + order * values) for order in orders])


OneRound = Callable[[float], LossDistribution]
"""Maps the step of the grid to the distribution of one round's loss."""


class Cells(NamedTuple):
    """Losses (`edges`, from that multiple of the step on), and the masses between, below and above them."""

    first: int
    edges: Numbers
    noise: Numbers
    mixture: Numbers
    noise_below: float
    noise_above: float
    mixture_below: float
    mixture_above: float


@dataclass(frozen=True)
class SubsampledGaussian:
    """One round: a client is sampled at some rate, and shifts the output by `shift` standard deviations of the noise.

    Outputs beyond `reach` standard deviations of either mean count as an infinite loss. P is the mixture and Q the
    noise alone, so that the loss grows with the output.
    """

    rate: float
    shift: float
    reach: float

    def losses(self, relation: NeighboringRelation) -> list[OneRound]:
        """Return the possible distributions of the loss."""
        return [self.removed, self.added] if relation is NeighboringRelation.ADD_OR_REMOVE else [self.either]

    @property
    def width(self) -> float:
        """A bound on the width of the finite losses."""
        return 2 * max(self._loss(self.shift + self.reach), -self._loss(-self.reach))

    def removed(self, step: float) -> LossDistribution:
        """Return the loss where the client participates under P."""
        cells = self._cells(self._loss(-self.reach), step)
        masses = _at_edges(cells.mixture, cells.noise, cells.edges)
        masses[0] += cells.mixture_below
        return LossDistribution(step, cells.first, masses, cells.mixture_above)

    def added(self, step: float) -> LossDistribution:
        """Return the loss where the client participates under Q."""
        cells = self._cells(self._loss(-self.reach), step)
        masses = _at_edges(cells.noise[::-1], cells.mixture[::-1], -cells.edges[::-1])
        masses[0] += cells.noise_above
        return LossDistribution(step, 1 - cells.first - len(masses), masses, cells.noise_below)

    def either(self, step: float) -> LossDistribution:
        """Return a loss that dominates both: the positive part of the first, the negative part of the second."""
        cells = self._cells(0.0, step)
        above = _at_edges(cells.mixture, cells.noise, cells.edges)
        below = _at_edges(cells.noise[::-1], cells.mixture[::-1], -cells.edges[::-1])
        below[0] += cells.noise_above
        masses = np.concatenate([below, above[1:]])
        neither = cells.noise_below - cells.mixture_above - math.fsum(cells.mixture)
        masses[len(below) - 1] += above[0] + max(0.0, neither)
        return LossDistribution(step, 1 - len(below), masses, cells.mixture_above)

    def _cells(self, least: float, step: float) -> Cells:
        first = math.floor(least / step)
        last = math.ceil(self._loss(self.shift + self.reach) / step)
        edges = np.arange(first, last + 1) * step
        outputs = self._output(edges)
        moved = outputs - self.shift
        noise = _normal_between(outputs)
        return Cells(
            first,
            edges,
            noise,
            self._mix(noise, _normal_between(moved)),
            noise_below=float(ndtr(outputs[0])),
            noise_above=float(ndtr(-outputs[-1])),
            mixture_below=float(self._mix(ndtr(outputs[0]), ndtr(moved[0]))),
            mixture_above=float(self._mix(ndtr(-outputs[-1]), ndtr(-moved[-1]))),
        )

    def _mix(self, without: Numbers, with_client: Numbers) -> Numbers:
        return (1 - self.rate) * without + self.rate * with_client

    def _loss(self, output: float) -> float:
        odds = math.log(self.rate) + self.shift * output - self.shift**2 / 2
        return float(np.logaddexp(math.log1p(-self.rate) if self.rate < 1 else -math.inf, odds))

    def _output(self, losses: Numbers) -> Numbers:
        """Return the outputs with these losses; −∞ where there is none, as no loss is below log(1−q)."""
        small, large = np.minimum(losses, 1), np.maximum(losses, 1)
        with np.errstate(divide="ignore", invalid="ignore"):
            odds = np.where(
                losses < 1,
                np.log1p(np.expm1(small) / self.rate),
                large + np.log1p((self.rate - 1) * np.exp(-large)) - math.log(self.rate),
            )
        return np.where(np.isnan(odds), -np.inf, odds) / self.shift + self.shift / 2


def _normal_between(outputs: Numbers) -> Numbers:
    """Return the masses of a standard normal between outputs, exact also far above 0."""
    left, right = outputs[:-1], outputs[1:]
    masses: Numbers = np.where(left > 0, ndtr(-left) - ndtr(-right), ndtr(right) - ndtr(left))
    return masses


def _at_edges(p: Numbers, q: Numbers, edges: Numbers) -> Numbers:
    """Move the masses between edges to the edges, as a dominating pair (Doroshenko et al., 2022).

    Each cell's mass under P is divided between its two edges such that its mass under Q is kept.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        upper = (p - q * np.exp(edges[:-1])) / -math.expm1(edges[0] - edges[1])
    upper = np.clip(np.where(np.isfinite(upper), upper, p), 0, p)
    masses = np.zeros(len(edges))
    masses[1:] += upper
    masses[:-1] += p - upper
    return masses


def _spent(one_round: OneRound, width: float, steps: int, delta: float) -> float:
    """Return ε of a sum of `steps` losses.

    The distribution is tilted by exp(order·loss) before the convolution, so that losses near ε are where its mass
    is, and their probabilities stay accurate however small δ is.
    """
    order, bottom, top = _locate(one_round(width / COARSE), steps, delta)
    one = one_round(max(top - bottom, width) / (CELLS - 4))
    (log_moment,) = one.log_moments(np.array([order]))
    tilted = one.masses * np.exp(order * one.values - log_moment)
    first = math.floor(bottom / one.step)
    convolved = np.roll(irfft(rfft(tilted, CELLS) ** steps, CELLS), (steps * one.first - first) % CELLS)
    values = (first + np.arange(CELLS)) * one.step
    with np.errstate(divide="ignore"):
        logs = np.log(np.maximum(convolved, 0)) + steps * log_moment - order * values
    lost = -math.expm1(steps * math.log1p(-one.infinite)) + math.exp(steps * log_moment - order * values[-1])

    def spends(asked: float) -> float:
        """Return δ at that ε."""
        place = np.searchsorted(values, asked, side="right")
        return lost - float(np.sum(np.exp(logs[place:]) * np.expm1(asked - values[place:])))

    low, high = max(0.0, bottom), max(0.0, float(values[-1]))
    if spends(low) <= delta:
        return low
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if spends(middle) <= delta else (middle, high)
    return high if spends(high) <= delta else math.inf


def _locate(one: LossDistribution, steps: int, delta: float) -> tuple[float, float, float]:
    """Return the order with the best bound on ε, and the range of the tilted sum by Chernoff's bound."""
    logs = steps * one.log_moments(ORDERS)
    best = int(np.argmin((logs - math.log(delta)) / ORDERS))
    top = np.min((logs - math.log(delta * NEGLIGIBLE)) / ORDERS)
    below = steps * one.log_moments(ORDERS[best] - ORDERS) - logs[best]
    bottom = np.max((math.log(NEGLIGIBLE / 1000) - below) / ORDERS)
    return float(ORDERS[best]), float(bottom), float(top)
