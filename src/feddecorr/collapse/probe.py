"""How well frozen features separate classes: a linear and a nearest-neighbour probe, both in closed form."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import normalize, one_hot

from feddecorr.collapse.statistics import Batch, Statistics, as_labels, as_tensor, check, chunks, in_double
from feddecorr.errors import UserError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


class ProbeAccuracy(NamedTuple):
    """The share of test samples that each probe gets right; None where there are no samples to be neighbours."""

    linear: float
    knn: float | None


def probe(  # noqa: PLR0913 - two sets of samples, and an option for each probe
    train_z: Tensor | ArrayLike | Statistics,
    train_y: Tensor | ArrayLike | None,
    test_z: Tensor | ArrayLike,
    test_y: Tensor | ArrayLike,
    *,
    ridge: float = 1e-3,
    neighbours: int = 20,
    temperature: float = 0.07,
) -> ProbeAccuracy:
    """Return the accuracy of probes on features of shape (n, d), fitted to other features.

    The linear probe is ridge regression onto one-hot labels, with an intercept; `ridge` is in units of the features'
    mean variance, so scale does not matter. The other is the weighted vote of Wu et al. (CVPR 2018): each of the
    nearest neighbours by cosine has exp(cosine / temperature) votes.

    In place of training samples and labels, `Statistics` of them will do for the linear probe, with None for the
    labels: the sums of several holders, such as clients, give the probe of all their samples.
    """
    test, wanted = _samples(test_z, test_y)
    if ridge <= 0 or neighbours < 1:
        raise UserError(f"ridge={ridge} and neighbours={neighbours} must be above zero")
    if isinstance(train_z, Statistics):
        if train_y is not None:
            raise UserError("statistics hold their labels: give None in place of the training labels")
        statistics, train = train_z, None
    elif train_y is None:
        raise UserError("training samples need labels")
    else:
        train = _samples(train_z, train_y)
        parts = chunks([Batch(*train)])
        statistics = reduce(add, (Statistics.of(part.z, part.labels).without_rows() for part in parts))
    if statistics.dimensions != test.shape[1]:
        raise UserError(f"training has {statistics.dimensions} features, the test {test.shape[1]}")
    linear = _right(_linear(statistics, test, ridge), wanted)
    if train is None:
        return ProbeAccuracy(linear, None)
    labels, places = train[1].unique(return_inverse=True)
    votes = _vote(train[0], one_hot(places).double(), test, min(neighbours, len(places)), temperature)
    return ProbeAccuracy(linear, _right(labels[votes], wanted))


def _right(decisions: Tensor, labels: Tensor) -> float:
    return float((decisions == labels).double().mean())


def _samples(z: Tensor | ArrayLike, y: Tensor | ArrayLike) -> tuple[Tensor, Tensor]:
    features = as_tensor(z).detach()
    labels = as_labels(y, features.device)
    check(features, labels)
    if not len(features):
        raise UserError("a probe needs samples to learn from and samples to be tested on")
    features = in_double(features)
    return features, labels.to(features.device)


def _linear(statistics: Statistics, test: Tensor, ridge: float) -> Tensor:
    """Return the labels by ridge regression, which counts, means and the common scatter are enough for."""
    classes = statistics.classes or {}
    if len(classes) < 2:
        raise UserError("all training samples have the same label, or none: a probe needs two classes")
    moments = statistics.moments
    labels = torch.tensor(list(classes), device=test.device)
    counts = test.new_tensor([each.count for each in classes.values()])
    scatter, mean = moments.scatter.to(test), moments.mean.to(test)
    strength = ridge * scatter.trace() / len(mean)
    if strength == 0:  # no feature varies: the most frequent class
        return labels[counts.argmax()].expand(len(test))
    means = torch.stack([each.mean for each in classes.values()]).to(test)
    together = (counts[:, None] * (means - mean)).T  # of features and one-hot labels
    weight = torch.linalg.solve(
        scatter + strength * torch.eye(len(mean), dtype=test.dtype, device=test.device), together
    )
    return labels[((test - mean) @ weight + counts / moments.count).argmax(1)]


COSINES = 1 << 24
"""How many cosines are held at once: 128 megabytes."""


def _vote(z: Tensor, targets: Tensor, test: Tensor, neighbours: int, temperature: float) -> Tensor:
    """Return the decisions of the nearest neighbours, for some of the test samples at a time."""
    known = normalize(z)
    decisions = []
    for some in normalize(test).split(max(1, COSINES // len(z))):
        cosines, nearest = (some @ known.T).topk(neighbours)
        votes = ((cosines - cosines[:, :1]) / temperature).exp()
        decisions.append((votes[..., None] * targets[nearest]).sum(1).argmax(1))
    return torch.cat(decisions)


GAP = 0.05
"""A difference of accuracies that words make something of."""

NEARLY_ALL = 0.95
"""An accuracy that leaves nothing to explain."""


@dataclass(frozen=True)
class Probed:
    """The accuracy of probes of a model's features, of its own head if it has one, and of chance.

    Chance is the share of the most frequent class among the test samples.
    """

    name: str
    linear: float
    knn: float | None
    chance: float
    own: float | None = None
    effective_rank: float | None = None

    @classmethod
    def of(cls, name: str, train: Batch, test: Batch, **options: Any) -> Probed:
        """Probe features with labels; decisions of the model on the test samples give its own accuracy."""
        for each in (train, test):
            if each.labels is None:
                raise UserError(f"{name}: a probe needs the labels of the training and of the test samples")
        found = probe(train.z, train.labels, test.z, test.labels, **options)  # type: ignore[arg-type]
        own = None if test.right is None else test.right / len(test.z)
        often = int(test.labels.unique(return_counts=True)[1].max())  # type: ignore[union-attr]
        return cls(name, *found, chance=often / len(test.z), own=own)

    def to_dict(self) -> dict[str, Any]:
        """Return it ready for JSON."""
        return asdict(self) | {"answer": self.answer()}

    def answer(self) -> list[str]:
        """Return in sentences what is bad: the features, the head, or neither."""
        return list(self._sentences())

    def _sentences(self) -> Iterator[str]:
        near = "" if self.knn is None else f", their nearest neighbours {100 * self.knn:.1f} %"
        own = "" if self.own is None else f"the model's own head is right on {100 * self.own:.1f} %; "
        yield (
            f"{self.name}: {own}a new linear head on the same frozen features on {100 * self.linear:.1f} %{near} "
            f"(chance: {100 * self.chance:.1f} %)."
        )
        best = max(self.linear, self.knn or 0)
        if best <= self.chance + GAP:
            yield "The features are bad: they separate the classes no better than chance."
        elif self.own is not None and best - self.own >= GAP:
            yield "The head is bad: the features separate the classes better than it does."
        elif best >= NEARLY_ALL:
            yield "Nothing is bad: the features separate nearly all samples."
        else:
            yield f"The features set the limit, not the head: expect about {100 * best:.0f} % of any head on them."
        if self.knn is not None and self.knn - self.linear >= GAP:
            yield "The classes lie apart, but not linearly: nearest neighbours see more than a linear head."
