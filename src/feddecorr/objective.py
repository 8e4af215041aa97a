"""The local objective is a sum of named terms over one forward pass."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from torch import Tensor, nn
from torch.nn.functional import cross_entropy as softmax_cross_entropy


@dataclass(frozen=True, slots=True)
class Pass:
    """One forward pass: inputs `x`, labels `y`, representations `z`, `logits`, and the parameters by name."""

    x: Tensor
    y: Tensor
    z: Tensor
    logits: Tensor
    parameters: Mapping[str, nn.Parameter]


Term = Callable[[Pass], Tensor]
"""A summand of the objective: a scalar on the graph."""


def cross_entropy(forward: Pass) -> Tensor:
    """Return the classification loss, which every objective has unless its method replaces it."""
    return softmax_cross_entropy(forward.logits, forward.y)
