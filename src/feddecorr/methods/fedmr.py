"""FedMR: the samples of each class fill their space, and keep off the prototypes of the others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor
from torch.nn.functional import one_hot

from feddecorr.core.messages import RoundInfo, Server, Update
from feddecorr.core.states import Mean, State
from feddecorr.loss.decorrelation import EPSILON, between_rows
from feddecorr.methods.method import Method, find_classifier_weight
from feddecorr.objective.class_means import COUNTS, MEANS, MergedMeans, class_means, representations
from feddecorr.objective.terms import ClientContext, Pass, Term, Trained


class FedMR(Method):
    """Decorrelates features within each class, and keeps classes apart by a prototype margin (Fan et al., TMLR 2024).

    A prototype is the mean representation of a class, over all clients, by the models of the round before.
    """

    state_optional = True
    term_names = ("class_decorrelation", "prototype_margin")

    intra: float = Field(0.1, ge=0, description="μ₁, weight of the decorrelation within classes")
    inter: float = Field(0.01, ge=0, description="μ₂, weight of the prototype margin")
    margin: float = Field(
        0.5, ge=0, le=1, description="share of two prototypes' distance by which a sample is to be nearer to its own"
    )
    variant: Literal["published", "released"] = Field(
        "published",
        description="released: as in the authors' code, which has no margin, and decorrelates by the loss of "
        "FedDecorr's authors, classes weighted by their samples",
    )

    def start(self, server: Server, info: RoundInfo) -> Server:
        """Share prototypes that nobody has seen yet."""
        if self.variant == "released":
            return server
        weight = find_classifier_weight(server, info).flatten(1)
        return replace(server, shared={MEANS: torch.zeros_like(weight), COUNTS: weight.new_zeros(len(weight))})

    def terms(self, context: ClientContext) -> Mapping[str, Term]:
        """Return the two terms, weighted."""
        published = self.variant == "published"
        found: dict[str, Term] = {
            "class_decorrelation": lambda forward: (
                self.intra * decorrelation(forward.z, forward.y, context.classes, published=published)
            )
        }
        if published:
            shared = {name: tensor.to(context.counts.device) for name, tensor in context.broadcast.shared.items()}
            known = shared[COUNTS] > 0

            def margin(forward: Pass) -> Tensor:
                return self.inter * prototype_margin(forward.z, forward.y, shared[MEANS], known, self.margin)

            found["prototype_margin"] = margin
        return found

    def finish(self, context: ClientContext, trained: Trained) -> tuple[State, State]:
        """Send the means of the classes that there are."""
        if self.variant == "released":
            return {}, {}
        return class_means(*representations(context, trained), context.classes), {}

    def expected_extra(self, server: Server, info: RoundInfo) -> State:
        """Expect means and counts of all classes."""
        return server.shared

    def aggregate(self, server: Server, updates: Iterable[Update], info: RoundInfo) -> Server:
        """Average the weights and, by class, the means; a class that nobody has keeps its prototype."""
        weights = Mean()
        merged = MergedMeans(server.shared[MEANS]) if server.shared else None
        for update in updates:
            weights.add(update.weights, update.examples)
            if merged is not None:
                merged.add(update)
        if merged is None:
            return replace(server, weights=weights.value)
        new, old = merged.counts > 0, server.shared
        means = torch.where(new.unsqueeze(1), merged.value.to(old[MEANS]), old[MEANS])
        counts = torch.where(new, merged.counts.to(old[COUNTS]), old[COUNTS])
        return replace(server, weights=weights.value, shared={MEANS: means, COUNTS: counts})


def decorrelation(z: Tensor, y: Tensor, classes: int, *, published: bool) -> Tensor:
    """Return the mean over classes of ‖K‖²_F/d², K the correlations of the class's samples in the batch.

    As released: of FedDecorr's released loss, by the numbers of samples. A class with a single one is left out. With
    features standardized within their class, n²·‖K‖²_F is the sum of (sᵢ·sⱼ)² over all pairs of its samples: one Gram
    matrix for all classes.
    """
    d, members = z.shape[1], one_hot(y, classes).to(z)
    counts = members.sum(0)
    several = counts > 1
    safe = counts.clamp(min=1)
    centred = z - (members.mT @ z / safe.unsqueeze(1))[y]
    variances = members.mT @ centred.square() / safe.unsqueeze(1)
    noise = EPSILON * (safe - 1) / safe
    scores = centred * (variances + noise.unsqueeze(1)).clamp(min=EPSILON / 2).rsqrt()[y]
    pairs = (y.unsqueeze(1) == y) * between_rows(scores).square()
    squares = members.mT @ pairs.sum(1)
    if published:
        return torch.where(several, squares / (safe * d).square(), 0).sum() / several.sum().clamp(min=1)
    others = squares - (members.mT @ scores.square()).square().sum(1)
    weighted = others * ((counts - 1) / safe).square() / (d * max(d - 1, 1))
    return torch.where(several, weighted, 0).sum() / torch.where(several, counts, 0).sum().clamp(min=1)


def prototype_margin(z: Tensor, y: Tensor, prototypes: Tensor, known: Tensor, share: float) -> Tensor:
    """Return the mean of max(0, ‖z − g_y‖ − ‖z − g‖ + share·‖g_y − g‖) over samples and prototypes g of other classes.

    Only where both prototypes are known.
    """
    prototypes = prototypes.to(z.dtype)
    away = torch.cdist(z, prototypes)
    gaps = away.gather(1, y.unsqueeze(1)) - away + share * torch.cdist(prototypes, prototypes)[y]
    others = torch.arange(len(known), device=y.device) != y.unsqueeze(1)
    pairs = others & known & known[y].unsqueeze(1)
    return torch.where(pairs, gaps.relu(), 0).sum() / pairs.sum().clamp(min=1)
