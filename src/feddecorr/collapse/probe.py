"""How well frozen features tell classes apart: a linear and a nearest-neighbour probe, both in closed form."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import normalize, one_hot

from feddecorr.collapse.statistics import CHUNK, CrossMoments, Moments, check
from feddecorr.errors import UserError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


class ProbeAccuracy(NamedTuple):
    """The share of test samples that each probe gets right."""

    linear: float
    knn: float


def probe(  # noqa: PLR0913 - two sets of samples, and an option for each probe
    train_z: Tensor | ArrayLike,
    train_y: Tensor | ArrayLike,
    test_z: Tensor | ArrayLike,
    test_y: Tensor | ArrayLike,
    *,
    ridge: float = 1e-3,
    neighbours: int = 20,
    temperature: float = 0.07,
) -> ProbeAccuracy:
    """Return how well classes are told from features of shape (n, d) by what was learned from others.

    The linear probe is ridge regression onto one-hot labels, with an intercept; `ridge` is in units of the features'
    mean variance, so scale does not matter. The other is the weighted vote of Wu et al. (CVPR 2018): each of the
    nearest neighbours by cosine has exp(cosine / temperature) votes.
    """
    train, test = _samples(train_z, train_y), _samples(test_z, test_y)
    if train[0].shape[1] != test[0].shape[1]:
        raise UserError(f"training has {train[0].shape[1]} features, the test {test[0].shape[1]}")
    if ridge <= 0 or neighbours < 1:
        raise UserError(f"ridge={ridge} and neighbours={neighbours} must be above zero")
    labels, places = train[1].unique(return_inverse=True)
    if len(labels) < 2:
        raise UserError("all training samples have the same label: there is nothing to tell apart")
    targets = one_hot(places).double()
    decisions = (
        _linear(train[0], targets, test[0], ridge),
        _vote(train[0], targets, test[0], min(neighbours, len(places)), temperature),
    )
    return ProbeAccuracy(*(float((labels[each] == test[1]).double().mean()) for each in decisions))


def _samples(z: Tensor | ArrayLike, y: Tensor | ArrayLike) -> tuple[Tensor, Tensor]:
    features = torch.as_tensor(z).detach()
    labels = torch.as_tensor(y, device=features.device)
    check(features, labels)
    if not len(features):
        raise UserError("a probe needs samples to learn from and samples to be tested on")
    return features.double(), labels


def _linear(z: Tensor, targets: Tensor, test: Tensor, ridge: float) -> Tensor:
    """Return the decisions of ridge regression, from second moments that are merged part by part."""
    parts = list(zip(z.split(CHUNK), targets.split(CHUNK), strict=True))
    moments, together = Moments.of(parts[0][0]), CrossMoments.of(*parts[0])
    for features, values in parts[1:]:
        moments, together = moments + Moments.of(features), together + CrossMoments.of(features, values)
    d = len(moments.mean)
    strength = ridge * moments.scatter.trace() / d
    if strength == 0:  # no feature varies: the most frequent class
        return together.second.argmax().expand(len(test))
    weight = torch.linalg.solve(
        moments.scatter + strength * torch.eye(d, dtype=z.dtype, device=z.device), together.scatter
    )
    decisions: Tensor = ((test - moments.mean) @ weight + together.second).argmax(1)
    return decisions


def _vote(z: Tensor, targets: Tensor, test: Tensor, neighbours: int, temperature: float) -> Tensor:
    """Return the decisions of the nearest neighbours, for some of the test samples at a time."""
    known = normalize(z)
    decisions = []
    for some in normalize(test).split(CHUNK):
        cosines, nearest = (some @ known.T).topk(neighbours)
        votes = ((cosines - cosines[:, :1]) / temperature).exp()
        decisions.append((votes[..., None] * targets[nearest]).sum(1).argmax(1))
    return torch.cat(decisions)
