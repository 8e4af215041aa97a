"""FedMuon: local steps have the same length in all directions of a layer's weights."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import torch
from pydantic import Field
from torch import Tensor

from feddecorr.core.messages import RoundInfo, Server, Update
from feddecorr.core.states import Mean, State, extrapolate
from feddecorr.methods.method import Method
from feddecorr.objective.terms import TINY, ClientContext, Compute, GradientRule, Trained


class FedMuon(Method):
    """Orthogonalizes local momentum, corrected by control variates C − Cᵢ (Takezawa et al., ICLR 2026).

    M ← (1−α)·M + α·g, and the step is along the polar factor of M − Cᵢ + C. The client's Cᵢ is the momentum with which
    its last round ended, and M begins there; C is the mean of all clients'.
    """

    needs_sgd = True
    own_momentum = True
    term_names = ()

    alpha: float = Field(0.1, gt=0, le=1, description="α, weight of a new gradient in the momentum")
    iterations: int = Field(5, ge=0, description="T, Newton–Schulz iterations; 0: the momentum is only normalized")

    def start(self, server: Server, info: RoundInfo) -> Server:
        """Share C = 0; clients begin with Cᵢ = 0 by remembering nothing."""
        return replace(server, shared={name: torch.zeros_like(weight) for name, weight in server.weights.items()})

    def gradient(self, context: ClientContext) -> GradientRule:
        """Return the polar factors of the corrected momentum."""
        common = context.as_parameter_list(context.broadcast.shared, trainable=True)
        own = context.as_parameter_list(context.memory, trainable=True) if context.memory else None
        momentum = [torch.zeros_like(each) for each in common] if own is None else [each.clone() for each in own]
        corrections = common if own is None else [c - mine for c, mine in zip(common, own, strict=True)]
        names = [name for name, parameter in context.model.named_parameters() if parameter.requires_grad]
        context.left.update(zip(names, momentum, strict=True))

        def orthogonal(compute: Compute) -> Sequence[Tensor]:
            for mine, gradient in zip(momentum, compute(), strict=True):
                mine.lerp_(gradient, self.alpha)
            corrected = (mine + correction for mine, correction in zip(momentum, corrections, strict=True))
            return [polar_factor(each, self.iterations) for each in corrected]

        return orthogonal

    def finish(self, context: ClientContext, trained: Trained) -> tuple[State, State]:
        """Return the change of Cᵢ for the server, and Cᵢ ← M to remember."""
        variate = {name: torch.zeros_like(c) for name, c in context.broadcast.shared.items()}
        variate |= {name: momentum.cpu() for name, momentum in context.left.items()}
        known = context.memory
        return {name: each - known[name] if known else each for name, each in variate.items()}, variate

    def expected_extra(self, server: Server, info: RoundInfo) -> State:
        """Expect a change for each weight."""
        return server.shared

    def aggregate(self, server: Server, updates: Iterable[Update], info: RoundInfo) -> Server:
        """Add the changes of weights and of C, each by the client's share of all examples."""
        weights, changes = Mean(), Mean()
        for update in updates:
            weights.add(update.weights, update.examples)
            changes.add(update.extra, update.examples)
        share = changes.weight / info.examples
        c = {name: torch.add(c, changes.value[name], alpha=share) for name, c in server.shared.items()}
        return replace(server, weights=extrapolate(server.weights, weights.value, share), shared=c)


@torch.no_grad()
def polar_factor(tensor: Tensor, iterations: int) -> Tensor:
    """Return UVᵀ of a matrix UΣVᵀ, approximately: X ← (15·X − 10·XXᵀX + 3·(XXᵀ)²X)/8 from X/‖X‖ on.

    That maps singular values from 0 to 1 nearer to 1, and no further. Filters are rows; a vector is a matrix of one
    column, whose factor is the vector at length 1.
    """
    x = tensor.flatten(1) if tensor.ndim > 1 else tensor.view(-1, 1)
    wide = x.shape[0] <= x.shape[1]
    x = x if wide else x.mT
    x = x / (x.norm() + TINY)
    for _ in range(iterations):
        square = x @ x.mT
        x = (15 * x - 10 * square @ x + 3 * square @ (square @ x)) / 8
    found: Tensor = (x if wide else x.mT).reshape(tensor.shape)
    return found
