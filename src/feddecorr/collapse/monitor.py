"""What callbacks of trainers share: a diagnosis of the representations that pass by in a validation."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from functools import reduce
from typing import Any

from torch import Tensor, distributed

from feddecorr.collapse.diagnosis import MEANINGS, Diagnosis, Subject, class_labels
from feddecorr.collapse.measures import is_recorded
from feddecorr.collapse.representation import Representations
from feddecorr.collapse.statistics import ClassSpread, Gathered, Moments, Statistics, Subsample, in_double
from feddecorr.errors import UserError, nearest
from feddecorr.loss.module import RISE

LOGGED = ("effective_rank", "dead_features")
"""What is logged unless other measures are asked for; the spectrum always is."""


class CollapseWarning(UserWarning):
    """The representations have collapsed, or the validation is not enough to decide."""


class ValidationDiagnosis:
    """Adds up the representations of a validation, batch by batch, and diagnoses those of all processes.

    It never ends the training: a diagnosis that fails is a warning. It warns when a collapse begins, and again if one
    begins after recovery.
    """

    def __init__(self, measures: Sequence[str] = LOGGED) -> None:
        numbers = {each.name for each in fields(Diagnosis) if is_recorded(each)} & MEANINGS.keys()
        for name in measures:
            if name not in numbers:
                raise UserError(f"no measure '{name}': {nearest(name, numbers)}")
        self._measures = tuple(measures)
        self._statistics: Statistics | None = None
        self._problem = ""
        self._collapsed = False

    def see(self, seen: Representations, labels: Any) -> None:
        """Add the latest forward pass, whose labels are left out where they are not one class for each sample."""
        try:
            z = in_double(seen.z.detach())
            found = class_labels(labels, z.device)
            self._add(Statistics.of(z, found if found is not None and found.shape == (len(z),) else None))
        except UserError as error:
            self._problem = str(error)
        seen.parts = []

    def _add(self, batch: Statistics) -> None:
        batch = batch.without_rows()
        if self._statistics is not None and self._statistics.classes is None:
            batch = replace(batch, classes=None)
        elif self._statistics is not None and batch.classes is None:
            self._statistics = replace(self._statistics, classes=None)
        self._statistics = batch if self._statistics is None else self._statistics + batch

    def diagnose(self, name: str, classifier: Tensor | None = None) -> Diagnosis | None:
        """Return the diagnosis of all samples since the last one, or warn that there is none."""
        problem, whole = _over_processes(self._problem, self._statistics)
        self._problem, self._statistics = "", None
        try:
            if problem or whole is None:
                raise UserError(problem or "no forward pass was seen")
            gathered = Gathered(whole, Subsample(), None, None)
            found = Diagnosis.of(name, gathered, subject=Subject(classifier=classifier))
        except UserError as error:
            warnings.warn(f"{name}: no diagnosis: {error}", CollapseWarning, stacklevel=2)
            return None
        collapsed = has_collapsed(found)
        if collapsed and not self._collapsed:
            warnings.warn(" ".join(found.answer()), CollapseWarning, stacklevel=2)
        self._collapsed = collapsed
        return found

    def numbers(self, found: Diagnosis) -> dict[str, float]:
        """Return what is logged: the measures, and the singular values of places 1, 2, 4, 8, …."""
        logged = {name: getattr(found, name) for name in self._measures}
        values = found.singular_values
        places = [1 << power for power in range(math.floor(math.log2(len(values))) + 1)]
        logged |= {f"singular_value_{place}": values[place - 1] for place in places}
        return {name: float(value) for name, value in logged.items() if value is not None}


def has_collapsed(found: Diagnosis) -> bool:
    """Return whether the words of the diagnosis speak of a collapse, or of many dead features."""
    collapsed = found.verdict() in {"collapsed", "total collapse"}
    return collapsed or found.dead_features >= RISE * found.dimensions


def _over_processes(problem: str, mine: Statistics | None) -> tuple[str, Statistics | None]:
    """Return the problems and the statistics of all processes of a distributed training.

    The scatter, which is large, is summed in place, around the common mean; all else is gathered.
    """
    if not (distributed.is_available() and distributed.is_initialized()):
        return problem, mine
    parts: list[Any] = [None] * distributed.get_world_size()
    small = None if mine is None else (mine.moments.count, mine.moments.mean.cpu(), _on_cpu(mine.classes))
    distributed.all_gather_object(parts, (problem, small))
    problem = "; ".join(dict.fromkeys(each for each, _ in parts if each))
    there = [each for _, each in parts if each is not None]
    if mine is None or len(there) < len(parts):
        return problem or "a process has seen no forward pass", None
    counts, means, classes = zip(*there, strict=True)
    mean = means[0] + sum(n * (each - means[0]) for n, each in zip(counts, means, strict=True)) / sum(counts)
    gap = mine.moments.mean - mean.to(mine.moments.mean)  # a feature that never varies has a gap of exactly zero
    scatter = mine.moments.scatter.addr(gap, gap, alpha=mine.moments.count)
    distributed.all_reduce(scatter)
    moments = Moments(sum(counts), mean, scatter.cpu())
    return problem, Statistics(moments, None if None in classes else reduce(_merge, classes))


def _on_cpu(classes: Mapping[int, ClassSpread] | None) -> dict[int, ClassSpread] | None:
    if classes is None:
        return None
    return {label: replace(each, mean=each.mean.cpu()) for label, each in classes.items()}


def _merge(one: Mapping[int, ClassSpread], other: Mapping[int, ClassSpread]) -> dict[int, ClassSpread]:
    shared = {label: one[label] + other[label] for label in one.keys() & other.keys()}
    return {**one, **other, **shared}
