"""Statistics that several holders of samples share, so that together they know a model's spectrum, and no feature."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor, nn

from feddecorr.collapse.diagnosis import Diagnosis, forward
from feddecorr.collapse.measures import Principal, measure_spread
from feddecorr.collapse.statistics import Moments, Statistics, chunks
from feddecorr.core.checks import LARGEST, MOST_EXAMPLES, Whole, is_plain
from feddecorr.errors import UserError


@dataclass(frozen=True)
class Evidence:
    """Count, mean and scatter of representations in float64, and how many decisions were right.

    Those of parts add up to those of the whole, to rounding in float64. They reveal the mean and the covariance of a
    holder's representations, and nothing else; the mean of a single sample is the sample itself.
    """

    moments: Moments
    right: int | None = None

    @classmethod
    def of(cls, model: nn.Module, loader: Iterable[Any], layer: str | None = None) -> Evidence:
        """Go once over a loader, as `diagnose` does."""
        parts = [cls(Moments.of(batch.z), batch.right) for batch in chunks(forward(model, loader, layer))]
        if not parts:
            raise UserError("there are no samples: the loader gave no batch")
        return reduce(add, parts)

    def __add__(self, other: Evidence) -> Evidence:
        moments = (Statistics(self.moments) + Statistics(other.moments)).moments
        unknown = self.right is None or other.right is None
        return Evidence(moments, None if unknown else int(self.right or 0) + int(other.right or 0))

    def diagnosis(self, name: str = "model") -> Diagnosis:
        """Return every measure of the spectrum, and the accuracy."""
        spread = measure_spread(Principal(self.moments))
        accuracy = None if self.right is None else self.right / self.moments.count
        return Diagnosis(name=name, **vars(spread), accuracy=accuracy)

    def to_state(self) -> dict[str, Tensor]:
        """Return it as tensors by name."""
        counts = torch.tensor([self.moments.count, -1 if self.right is None else self.right])
        return {"counts": counts, "mean": self.moments.mean.cpu(), "scatter": self.moments.scatter.cpu()}

    @classmethod
    def from_state(cls, state: dict[str, Tensor], width: int | None = None) -> Evidence:
        """Return what `to_state` wrote, or refuse what cannot be of any samples, or of other features than `width`."""
        if not isinstance(state, dict) or state.keys() != {"counts", "mean", "scatter"}:
            raise UserError("evidence holds counts, mean and scatter, and nothing else")
        if not all(map(is_plain, state.values())):
            raise UserError("evidence is in plain tensors")
        counts, mean, scatter = state["counts"], state["mean"], state["scatter"]
        d = len(mean) if mean.ndim == 1 else 0
        if counts.dtype != torch.int64 or counts.shape != (2,) or d == 0 or scatter.shape != (d, d):
            raise UserError("the shapes of the evidence do not fit each other")
        if width is not None and d != width:
            raise UserError(f"evidence of {d} features, where representations have {width}")
        if mean.dtype != torch.float64 or scatter.dtype != torch.float64:
            raise UserError(f"evidence is in float64, not {mean.dtype} and {scatter.dtype}")
        count, right = counts.tolist()
        Whole(1, MOST_EXAMPLES)(count, "samples")
        Whole(-1, count)(right, "right decisions")
        if not _is_possible(Moments(count, mean, scatter)):
            raise UserError(f"no {count} samples have such a mean and scatter")
        return cls(Moments(count, mean, scatter), None if right < 0 else right)

    def to_bytes(self) -> bytes:
        """Return it in a form that any process can read: safetensors."""
        return save(self.to_state())

    @classmethod
    def from_bytes(cls, content: bytes, width: int | None = None) -> Evidence:
        """Return what `to_bytes` wrote, or refuse it as `from_state` does; nothing is unpickled."""
        try:
            return cls.from_state(load(content), width)
        except (SafetensorError, ValueError, TypeError, KeyError) as error:
            if isinstance(error, UserError):
                raise
            raise UserError(f"this is no evidence that can be read: {error}") from error


def _is_possible(moments: Moments) -> bool:
    """Return whether there can be such samples, each of them no larger than `LARGEST`, to the rounding of a product."""
    scatter, variances = moments.scatter, moments.scatter.diagonal()
    if not bool(moments.mean.abs().max() <= LARGEST) or not bool(variances.min() >= 0):
        return False
    if not bool(variances.max() <= moments.count * (2 * LARGEST) ** 2):
        return False
    slack = 1e-9 * variances.max()
    roots = variances.sqrt()
    bounded = (scatter.abs() <= torch.outer(roots, roots) + slack).all()  # Cauchy and Schwarz; false of NaN
    return bool(bounded and ((scatter - scatter.T).abs() <= slack).all())
