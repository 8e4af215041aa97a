"""The answer to the question whether a model has collapsed: one word, and the sentences behind it."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files

import torch
from torch import nn
from torch.nn.modules.batchnorm import _NormBase

from feddecorr.collapse.measures import DOCUMENT, Measures
from feddecorr.collapse.neural_collapse import ClassMeasures
from feddecorr.collapse.representation import CONVOLUTIONS

TIGHT = 0.1
"""Share of the variance within classes below which they count as tight."""

COLLAPSED = 0.5
"""The score from which on a representation is called collapsed."""

NARROWER = 0.8
"""The share of its reference's effective rank below which a representation is called narrower."""

VERDICTS = {
    "untrained": "This network has not been trained: its spectrum is that of random weights, and no collapse.",
    "total collapse": "All samples have the same representation: a total collapse.",
    "neural collapse": "Neural collapse, which is good, and no dimensional collapse.",
    "collapsed": "This representation has collapsed. FedDecorr (regularizers=feddecorr) works against that.",
    "narrower": "This representation has not collapsed, but it is narrower than it could be.",
    "not collapsed": "This representation has not collapsed.",
    "cannot tell": "Without labels or another model, this may or may not be a collapse: a task with few classes needs "
    "few dimensions. Give the labels (--labels FILE, or a loader that yields them), or the same network trained on "
    "homogeneous data as a second model.",
}
"""The answers in the order in which they are decided, each in a sentence."""


@dataclass(frozen=True, kw_only=True)
class Judged(ClassMeasures, Measures):
    """The measures that a verdict depends on."""

    untrained: bool | None = field(default=None, metadata=DOCUMENT)
    """Whether the weights are those of the start, where that is known."""
    start_effective_rank: float | None = field(default=None, metadata=DOCUMENT)
    """The effective rank of the same network before training, where it is known."""


def verdict(found: Judged, reference: Judged | None = None) -> str:
    """Return the answer as one of `VERDICTS`; with a reference, also by comparison."""
    if found.effective_rank == 0:
        return "total collapse"
    if found.untrained:
        return "untrained"
    share = _share_of(reference, found)
    missing = found.collapse_score if found.collapse_score is not None else None if share is None else 1 - share
    if missing is None:
        return "cannot tell"
    if missing >= COLLAPSED:
        return "collapsed"
    if found.within_class_share is not None and found.within_class_share < TIGHT:
        return "neural collapse"
    return "narrower" if share is not None and share < NARROWER else "not collapsed"


def _share_of(reference: Judged | None, found: Judged) -> float | None:
    """Return the effective rank by that of the reference, if that can be one."""
    if reference is None or reference.untrained or reference.effective_rank == 0:
        return None
    return found.effective_rank / reference.effective_rank


def sentences(found: Judged, reference: Judged | None = None) -> Iterator[str]:
    """Yield the verdict and what it rests on: what classes need, the network at the start, recorded runs."""
    yield VERDICTS[verdict(found, reference)]
    if found.collapse_score is not None and found.classes and found.effective_rank > 0:
        needed = min(found.classes - 1, found.dimensions)
        yield (
            f"{found.classes} classes need no more than {needed} dimension{'s' * (needed > 1)}, of which their means "
            f"use {found.class_mean_rank:.1f}: a collapse score of {found.collapse_score:.2f} (0 is none, 1 is total)."
        )
    if found.start_effective_rank is not None and not found.untrained:
        yield f"At the start, with random weights, its effective rank was {found.start_effective_rank:.1f}."
    if not found.untrained and (known := recorded(found.dimensions, found.classes)):
        yield known.compare(found.effective_rank)


@dataclass(frozen=True)
class Recorded:
    """Effective ranks of recorded runs without regularizers, sorted: of all, and of those on homogeneous data."""

    dimensions: int
    classes: int
    effective_ranks: Sequence[float]
    homogeneous: Sequence[float]

    def compare(self, rank: float) -> str:
        """Return a sentence about where an effective rank lies among them."""
        below = sum(each < rank for each in self.effective_ranks)
        said = (
            f"Of {len(self.effective_ranks)} recorded runs with {self.dimensions} dimensions, {self.classes} classes "
            f"and no regularizer, {below} had a lower effective rank"
        )
        if self.homogeneous:
            said += f"; on homogeneous data it was {self.homogeneous[0]:.0f} to {self.homogeneous[-1]:.0f}"
        return f"{said}."


@cache
def all_recorded() -> list[Recorded]:
    """Return what is known of recorded runs, by dimensions and classes; `make quotes` writes the table."""
    table = json.loads((files("feddecorr.collapse") / "recorded.json").read_text())
    return [Recorded(**row) for row in table]


def recorded(dimensions: int, classes: int | None) -> Recorded | None:
    """Return the recorded runs with as many classes and about as many dimensions (by a factor of √2 at most)."""
    same = [each for each in all_recorded() if each.classes == classes]
    nearest = min(same, key=lambda each: abs(math.log(each.dimensions / dimensions)), default=None)
    if nearest is None or abs(math.log(nearest.dimensions / dimensions)) > math.log(2) / 2:
        return None
    return nearest


SIGNIFICANT = 2.0
"""Kolmogorov and Smirnov's statistic, times the root of half the number of weights: below it chance explains it."""


MOST_WEIGHTS = 1 << 16
"""At most this many weights of a layer are compared, spread evenly over it."""


def looks_untrained(model: nn.Module) -> bool | None:
    """Return whether all weights are distributed as PyTorch draws them; None where no layer allows to decide.

    Of each linear or convolutional layer a fresh copy is drawn, and the two distributions are compared by the test of
    Kolmogorov and Smirnov; what normalizations multiply by has to be 1, and what they add 0.
    """
    drawn = [module for module in model.modules() if type(module) in (nn.Linear, *CONVOLUTIONS)]
    if not drawn:
        return None
    scales = [module for module in model.modules() if isinstance(module, (_NormBase, nn.LayerNorm, nn.GroupNorm))]
    for module in scales:
        for parameter, start in ((module.weight, 1), (module.bias, 0)):
            if parameter is not None and not bool((parameter == start).all()):
                return False
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return all(map(_is_fresh, drawn))


@torch.no_grad()
def _is_fresh(module: nn.Module) -> bool:
    step = -(-module.weight.numel() // MOST_WEIGHTS)  # type: ignore[operator]
    weight = module.weight.detach().flatten()[::step].double().cpu()  # type: ignore[operator]
    fresh = copy.deepcopy(module).cpu()
    fresh.reset_parameters()  # type: ignore[operator]
    other = fresh.weight.flatten()[::step].double()  # type: ignore[operator]
    both = torch.cat([weight, other]).sort().values
    mine, theirs = (torch.searchsorted(each.sort().values, both, right=True) for each in (weight, other))
    distance = float((mine - theirs).abs().max()) / len(weight)
    return distance * math.sqrt(len(weight) / 2) < SIGNIFICANT
