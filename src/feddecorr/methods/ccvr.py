"""CCVR: after training, the classifier is estimated anew from what the features of each class look like."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import ClassVar

import torch
from pydantic import Field, PositiveFloat, PositiveInt
from torch import Tensor
from torch.nn.functional import one_hot

from feddecorr.collapse.statistics import Moments
from feddecorr.core.messages import RoundInfo, Server, Update
from feddecorr.core.randomness import gaussian, generator
from feddecorr.core.states import Mean, State
from feddecorr.methods.method import Method, Trains, find_classifier_weight
from feddecorr.objective.class_means import COUNTS, MEANS, representations
from feddecorr.objective.terms import TINY, ClientContext, Trained

SCATTERS = "scatters"
MOMENTUM = 0.9


class CCVR(Method):
    """Is FedAvg, whose classifier is trained on virtual features in the end (Luo et al., NeurIPS 2021).

    From the round of the calibration on nobody trains. Clients send count, mean and scatter of the representations of
    each class under the global model; the server merges them, draws features from a Gaussian for each class, and
    trains the classifier on these alone.
    """

    requires: ClassVar[dict[str, str]] = {"model.head": "linear"}

    calibration_round: PositiveInt = Field(
        20, description="the round that calibrates, and each after it: the last one of the run; FedAvg before it"
    )
    features: PositiveInt = Field(100, description="M, virtual features of each class")
    steps: PositiveInt = Field(200, description="steps of gradient descent on all virtual features")
    lr: PositiveFloat = Field(1.0, description="learning rate of these steps, for features whose mean length is 1")

    def start(self, server: Server, info: RoundInfo) -> Server:
        """Refuse a network whose classifier is not trained."""
        find_classifier_weight(server, info)
        return server

    def trains(self, number: int) -> Trains:
        """Train everything, until the calibration."""
        return "network" if number < self.calibration_round else "nothing"

    def finish(self, context: ClientContext, trained: Trained) -> tuple[State, State]:
        """Send the moments of each class, if it is time."""
        if context.broadcast.round < self.calibration_round:
            return {}, {}
        z, y = representations(context, trained)
        width = z.shape[1]
        means, scatters = z.new_zeros(context.classes, width), z.new_zeros(context.classes, width, width)
        for label in y.unique().tolist():
            found = Moments.of(z[y == label])
            means[label], scatters[label] = found.mean, found.scatter
        counts = torch.bincount(y, minlength=context.classes).to(z)
        return {COUNTS: counts, MEANS: means, SCATTERS: scatters}, {}

    def expected_extra(self, server: Server, info: RoundInfo) -> State:
        """Expect the moments of all classes, if it is time."""
        if info.round < self.calibration_round:
            return {}
        weight = find_classifier_weight(server, info)
        classes, width = weight.shape
        return {COUNTS: weight.new_zeros(classes), MEANS: weight, SCATTERS: weight.new_zeros(classes, width, width)}

    def aggregate(self, server: Server, updates: Iterable[Update], info: RoundInfo) -> Server:
        """Average the weights; if it is time, train the classifier on virtual features."""
        weights, merged = Mean(), dict[int, Moments]()
        for update in updates:
            weights.add(update.weights, update.examples)
            for label, found in _moments(update).items():
                merged[label] = merged[label] + found if label in merged else found
        if len(merged) < 2:  # of one class there is nothing to tell apart
            return replace(server, weights=weights.value)
        name = info.classifier
        bias = name.removesuffix("weight") + "bias"
        stream = generator(info.seed, "virtual features", info.round)
        rows = sorted(merged)
        drawn = [draw(merged[label], self.features, stream) for label in rows]
        x, y = torch.cat(drawn), torch.arange(len(rows)).repeat_interleave(self.features)
        held = weights.value[name], weights.value[bias]
        weight, offset = train_classifier(x, y, *(each[rows].double() for each in held), steps=self.steps, lr=self.lr)
        calibrated = {}
        for key, whole, part in zip((name, bias), held, (weight, offset), strict=True):
            calibrated[key] = whole.clone()
            calibrated[key][rows] = part.to(whole)
        return replace(server, weights={**weights.value, **calibrated})


def _moments(update: Update) -> dict[int, Moments]:
    """Return what a client sent of each class that it has; nobody has more samples than the update is of."""
    if SCATTERS not in update.extra:
        return {}
    means, scatters = update.extra[MEANS].double(), update.extra[SCATTERS].double()
    counts = update.extra[COUNTS].clamp(0, update.examples).long().tolist()
    return {label: Moments(count, means[label], scatters[label]) for label, count in enumerate(counts) if count}


def draw(moments: Moments, count: int, stream: torch.Generator) -> Tensor:
    """Return samples of a Gaussian with that mean and covariance."""
    values, vectors = torch.linalg.eigh((moments.covariance + moments.covariance.mT) / 2)
    noise = gaussian(torch.Size((count, len(values))), stream).double() * values.clamp(min=0).sqrt()
    drawn: Tensor = moments.mean + noise @ vectors.mT
    return drawn


def train_classifier(
    x: Tensor, y: Tensor, weight: Tensor, bias: Tensor, *, steps: int, lr: float
) -> tuple[Tensor, Tensor]:
    """Return weights and biases after steps down the cross-entropy of all samples, with momentum.

    The steps are taken for centred samples of mean length 1: neither an offset nor the scale of the samples matters
    to how far they lead.
    """
    centre = x.mean(0)
    length = (x - centre).square().sum(1).mean().sqrt().clamp(min=TINY)
    x = (x - centre) / length
    w, b = weight * length, bias + weight @ centre
    true = one_hot(y, len(w)).to(x)
    slow_w, slow_b = torch.zeros_like(w), torch.zeros_like(b)
    for _ in range(steps):
        slope = ((x @ w.mT + b).softmax(1) - true) / len(x)
        slow_w, slow_b = MOMENTUM * slow_w + slope.mT @ x, MOMENTUM * slow_b + slope.sum(0)
        w, b = w - lr * slow_w, b - lr * slow_b
    weight = w / length
    return weight, b - weight @ centre
