"""The spread of one class, kept small: a factor of its scatter matrix with no more rows than it has rank."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor


@dataclass(frozen=True)
class ClassSpread:
    """Count, mean, and `rows` F with FᵀF = Σ(z−z̄)(z−z̄)ᵀ, in float64.

    Classes are many and their samples few: F has the size of the samples where a scatter matrix each would be
    d×d. Beyond 2·d rows it is replaced by the d×d triangle R of F = QR, for which RᵀR = FᵀF. `rows` is None
    where there is no room for it; `trace` is that of FᵀF and always there.
    """

    count: int
    mean: Tensor
    rows: Tensor | None
    trace: float

    @classmethod
    def of(cls, mean: Tensor, centred: Tensor) -> ClassSpread:
        """Take a mean and the deviations from it."""
        whole = cls(len(centred), mean, centred, float(centred.square().sum()))
        return whole.reduced() if len(centred) > 2 * len(mean) else whole

    def __add__(self, other: ClassSpread) -> ClassSpread:
        count = self.count + other.count
        gap = other.mean - self.mean
        between = self.count * other.count / count
        mean = self.mean + gap * (other.count / count)
        trace = self.trace + other.trace + between * float(gap @ gap)
        if self.rows is None or other.rows is None:
            return ClassSpread(count, mean, None, trace)
        rows = torch.cat([self.rows, other.rows, gap[None] * between**0.5])
        merged = ClassSpread(count, mean, rows, trace)
        return merged.reduced() if len(rows) > 2 * len(mean) else merged

    @property
    def bytes(self) -> int:
        """The memory that the rows take."""
        return 0 if self.rows is None else self.rows.nbytes

    def without_rows(self) -> ClassSpread:
        """Return count, mean and trace alone."""
        return replace(self, rows=None)

    def reduced(self) -> ClassSpread:
        """Return the same with the triangle R for rows: a function of the scatter matrix, up to signs."""
        return self if self.rows is None else replace(self, rows=torch.linalg.qr(self.rows, mode="r").R)

    def singular_values(self) -> Tensor | None:
        """Return those of the covariance that are not zero by count, largest first."""
        if self.rows is None:
            return None
        few = len(self.rows) < self.rows.shape[1]
        product = self.rows @ self.rows.T if few else self.rows.T @ self.rows
        values: Tensor = torch.linalg.eigvalsh(product / self.count)
        return values.flip(0).clamp(min=0)
