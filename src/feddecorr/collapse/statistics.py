"""What is kept of representations: sums in float64, whose size does not grow with the samples."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from feddecorr.collapse.class_spread import ClassSpread
from feddecorr.errors import UserError

CLASS_MEMORY = 1 << 30
"""Bytes that the spread within the classes may take; beyond, it is not kept."""


@dataclass(frozen=True)
class Moments:
    """Count, mean and scatter Σ(z−z̄)(z−z̄)ᵀ of representations, in float64, without holding them.

    Two parts are merged by the update of Chan, Golub and LeVeque (1979), which stays exact under large means.
    """

    count: int
    mean: Tensor
    scatter: Tensor

    @classmethod
    def of(cls, z: Tensor) -> Moments:
        """Return the moments of one batch of shape (n, d)."""
        mean, centred = centre(z)
        return cls(len(z), mean, centred.T @ centred)

    def __add__(self, other: Moments) -> Moments:
        count = self.count + other.count
        gap = other.mean - self.mean
        mean = self.mean + gap * (other.count / count)
        scatter = (self.scatter + other.scatter).addr_(gap, gap, alpha=self.count * other.count / count)
        return Moments(count, mean, scatter)

    @property
    def second(self) -> Tensor:
        """Σzzᵀ, of the representations as they are."""
        return torch.addr(self.scatter, self.mean, self.mean, alpha=self.count)

    @property
    def covariance(self) -> Tensor:
        """The paper's Σ, with 1/N."""
        return self.scatter / self.count


def centre(z: Tensor) -> tuple[Tensor, Tensor]:
    """Return the mean and the deviations from it, in float64.

    One sample is taken off first: so a feature that never varies has deviations of exactly zero.
    """
    first = z[0].to(torch.float64)
    moved = z.to(torch.float64) - first
    shift = moved.mean(0)
    return first + shift, moved.sub_(shift)


@dataclass(frozen=True)
class Statistics:
    """Moments of all representations and, with labels, what is kept of each class.

    Statistics of parts (batches, processes, clients) add up to those of the whole. What they tell about the
    samples is their mean and covariance, no features: `sealed` sees to that for classes, too.
    """

    moments: Moments
    classes: dict[int, ClassSpread] | None = None

    @classmethod
    def of(cls, z: Tensor, labels: Tensor | None = None) -> Statistics:
        """Return the statistics of one batch of shape (n, d), and of labels of shape (n,)."""
        check(z, labels)
        if labels is None:
            return cls(Moments.of(z))
        found = {int(label): ClassSpread.of(*centre(z[labels == label])) for label in labels.unique()}
        return cls(Moments.of(z), found)

    def __add__(self, other: Statistics) -> Statistics:
        if self.moments.mean.shape != other.moments.mean.shape:
            raise UserError(f"{self.dimensions} features cannot be merged with {other.dimensions}")
        if (self.classes is None) != (other.classes is None):
            raise UserError("some of the representations have labels and some have none")
        return Statistics(self.moments + other.moments, self._merge(other))

    def _merge(self, other: Statistics) -> dict[int, ClassSpread] | None:
        if self.classes is None or other.classes is None:
            return None
        merged = dict(self.classes)
        for label, factor in other.classes.items():
            merged[label] = merged[label] + factor if label in merged else factor
        if sum(factor.bytes for factor in merged.values()) > CLASS_MEMORY:
            return {label: factor.without_rows() for label, factor in merged.items()}
        return merged

    @property
    def dimensions(self) -> int:
        """The number of features, d."""
        return len(self.moments.mean)

    def sealed(self) -> Statistics:
        """Return the same statistics in a form that is a function of counts, means and covariances alone."""
        if self.classes is None:
            return self
        return Statistics(self.moments, {label: factor.reduced() for label, factor in self.classes.items()})


def check(z: Tensor, labels: Tensor | None) -> None:
    """Refuse what is not a batch of representations."""
    if z.ndim != 2 or z.shape[1] == 0:
        raise UserError(f"representations have the shape (samples, features), not {tuple(z.shape)}")
    if not z.is_floating_point():
        raise UserError(f"representations are floating-point numbers, not {z.dtype}")
    if not torch.isfinite(z.sum()) and (wrong := int((~torch.isfinite(z)).any(1).sum())):  # sums alone may overflow
        raise UserError(f"{wrong} of {len(z)} samples of a batch hold NaN or infinity: the model has diverged")
    if labels is not None and labels.shape != (len(z),):
        raise UserError(f"{len(z)} samples need as many labels, not labels of shape {tuple(labels.shape)}")
