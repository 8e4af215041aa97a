"""FedNH: classes have prototypes in place of weights, far apart in the beginning, which the server alone moves."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import nn
from torch.nn.functional import normalize

from feddecorr.core.messages import RoundInfo, Server, Update
from feddecorr.core.randomness import seeded
from feddecorr.core.states import Mean, State
from feddecorr.methods.method import Method, find_classifier_weight
from feddecorr.objective.class_means import COUNTS, MEANS, MergedMeans, class_means, representations
from feddecorr.objective.terms import ClientContext, Trained


class FedNH(Method):
    """Classifies by cosines to uniform prototypes, which follow the class means slowly (Dai et al., AAAI 2023).

    w ← ρ·w + (1 − ρ)·m, with m the mean of a class's representations at length 1, over all clients, and w and m put
    back to length 1. Clients train everything else under the prototypes that they are sent.
    """

    requires: ClassVar[dict[str, str]] = {"model.head": "prototypes"}

    smoothing: float = Field(0.9, ge=0, le=1, description="ρ, what is kept of a prototype in a round; 1: all of it")
    variant: Literal["published", "released"] = Field(
        "published",
        description="of the first prototypes: as far apart as can be; released: orthonormal, as in the authors' code",
    )

    def start(self, server: Server, info: RoundInfo) -> Server:
        """Begin with the prototypes of the network, a simplex, or with orthonormal ones."""
        prototypes = find_classifier_weight(server, info)
        if self.variant == "published":
            return server
        with seeded(info.seed, "prototypes"):
            first = nn.init.orthogonal_(torch.empty_like(prototypes))
        return replace(server, weights={**server.weights, info.classifier: first})

    def finish(self, context: ClientContext, trained: Trained) -> tuple[State, State]:
        """Send the direction of each class's mean representation."""
        z, y = representations(context, trained)
        found = class_means(normalize(z), y, context.classes)
        return {MEANS: normalize(found[MEANS]), COUNTS: found[COUNTS]}, {}

    def expected_extra(self, server: Server, info: RoundInfo) -> State:
        """Expect a direction and a count for each class."""
        prototypes = server.weights[info.classifier]
        return {MEANS: prototypes, COUNTS: prototypes.new_zeros(len(prototypes))}

    def aggregate(self, server: Server, updates: Iterable[Update], info: RoundInfo) -> Server:
        """Average the weights, and move the prototypes; one whose class nobody has stays."""
        before = server.weights[info.classifier]
        weights, merged = Mean(), MergedMeans(before)
        for update in updates:
            weights.add(update.weights, update.examples)
            merged.add(update)
        means = normalize(merged.value.to(before))
        moved = normalize(self.smoothing * before + (1 - self.smoothing) * means)
        there = (merged.counts > 0).unsqueeze(1)
        return replace(server, weights={**weights.value, info.classifier: torch.where(there, moved, before)})
