"""The local objective, a sum of named terms over one forward pass, and what a method's client hooks are given."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy as softmax_cross_entropy

from feddecorr.core.messages import Broadcast
from feddecorr.core.states import State, copy_into, norm


@dataclass(frozen=True, slots=True)
class Places:
    """Where images are among the client's own: the same numbers on the host, which may be read, and on the device."""

    host: Tensor
    device: Tensor

    def each(self, change: Callable[[Tensor], Tensor]) -> Places:
        """Return both, changed."""
        return Places(change(self.host), change(self.device))


@dataclass(frozen=True, slots=True)
class Pass:
    """One forward pass: inputs `x`, labels `y`, representations `z`, `logits`, and the parameters by name.

    `levels` are what the network made on its way to `z`, of shape (n, channels) each, where a method needs them.
    `places` are those of the images among the client's own, if they come as they are, each time the same; None if not.
    """

    x: Tensor
    y: Tensor
    z: Tensor
    logits: Tensor
    parameters: Mapping[str, Tensor]
    levels: Sequence[Tensor] = ()
    places: Places | None = None


Term = Callable[[Pass], Tensor]
"""A summand of the objective: a scalar on the graph."""


def combine(*tables: Mapping[str, Term | None]) -> dict[str, Term]:
    """Return all terms by name: later ones replace earlier ones of their name, and None takes them away."""
    merged: dict[str, Term | None] = {}
    for table in tables:
        merged |= table
    return {name: term for name, term in merged.items() if term is not None}


Marked = TypeVar("Marked", bound=Term)


def of_several(term: Marked) -> Marked:
    """Mark a term that also takes a pass of several clients, of shapes (clients, n, …), and gives each one's value.

    It uses only `y`, `z` and `logits`.
    """
    term.of_several = True  # type: ignore[attr-defined]  # functions take any attribute
    return term


def takes_several(term: Term) -> bool:
    """Return whether a term takes a pass of several clients."""
    return getattr(term, "of_several", False)


@of_several
def cross_entropy(forward: Pass) -> Tensor:
    """Return the classification loss, which every objective has unless its method replaces it."""
    if forward.logits.ndim == 2:
        return softmax_cross_entropy(forward.logits, forward.y)
    each = softmax_cross_entropy(forward.logits.flatten(0, 1), forward.y.flatten(), reduction="none")
    return each.view_as(forward.y).mean(1)


def proximal(weight: float, anchor: Sequence[Tensor]) -> Term:
    """Return the term (weight/2)·‖w − anchor‖²."""

    def term(forward: Pass) -> Tensor:
        parameters = list(forward.parameters.values())
        with torch.no_grad():
            gaps = [mine - theirs for mine, theirs in zip(parameters, anchor, strict=True)]
            value = torch.stack([torch.linalg.vector_norm(gap) for gap in gaps]).square().sum() * (weight / 2)
            slope = [gap.mul_(weight) for gap in gaps]
        return _known(value, slope, parameters)

    return term


def linear(direction: Sequence[Tensor]) -> Term:
    """Return the term ⟨direction, w⟩."""

    def term(forward: Pass) -> Tensor:
        parameters = list(forward.parameters.values())
        with torch.no_grad():
            products = [(mine * theirs).sum() for mine, theirs in zip(parameters, direction, strict=True)]
            value = torch.stack(products).sum()
        return _known(value, direction, parameters)

    return term


def _known(value: Tensor, gradient: Sequence[Tensor], parameters: Sequence[Tensor]) -> Tensor:
    scalar: Tensor = _Known.apply(value, *gradient, *parameters)  # type: ignore[no-untyped-call]  # PyTorch's
    return scalar


class _Known(torch.autograd.Function):
    """A scalar of the parameters with a known gradient: autograd has nothing to build or walk for it.

    It also works under `torch.func`, where parameters of several clients are stacked.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(value: Tensor, *_tensors: Tensor) -> Tensor:
        return value.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], _output: Tensor) -> None:
        ctx.save_for_backward(*inputs[1 : 1 + len(inputs) // 2])

    @staticmethod
    def backward(ctx: Any, *outer: Tensor) -> Any:
        gradient = ctx.saved_tensors
        return None, *[None] * len(gradient), *[slope * outer[0] for slope in gradient]


@dataclass(frozen=True)
class ClientContext:
    """What a method's client hooks see: the client, what it was sent and what it remembers."""

    client: int
    broadcast: Broadcast
    memory: State
    model: nn.Module
    labels: Tensor
    classes: int
    left: State = field(default_factory=dict)
    """What the gradient rule leaves for `finish`; a round begins with nothing."""
    images: Callable[[], Iterable[tuple[Tensor, Tensor]]] = tuple
    """Goes once over the client's images, as the network takes them and unchanged, with their labels."""

    @property
    def counts(self) -> Tensor:
        """The number of the client's examples of each class, as floats on the model's device."""
        counts = torch.bincount(self.labels, minlength=self.classes)
        return counts.to(next(self.model.parameters()))

    @property
    def trainable(self) -> list[Tensor]:
        """The parameters that training moves, in the order of their gradients: not those of frozen layers."""
        return [parameter for parameter in self.model.parameters() if parameter.requires_grad]

    def as_parameter_list(self, state: State, *, trainable: bool = False) -> list[Tensor]:
        """Return a copy of the state in the order, on the device and in the memory format of the parameters.

        Those are all, or the ones that training moves.
        """
        return [
            torch.empty_like(mine).copy_(state[name])
            for name, mine in self.model.named_parameters()
            if mine.requires_grad or not trainable
        ]


@dataclass(frozen=True)
class Trained:
    """What local training ends with; `amount` is the sum of the steps' learning rates (see `Update`)."""

    weights: State
    buffers: State
    amount: float


class Compute(Protocol):
    """Gives the gradient of the current batch at the current weights, as often as it is asked."""

    def __call__(self, term: Term | None = None) -> Sequence[Tensor]:
        """Return that of the objective, which is recorded, or of another term."""


GradientRule = Callable[[Compute], Sequence[Tensor]]
"""What makes the gradient of a local step."""


TINY = 1e-12


def scaled_to(length: float, direction: Sequence[Tensor]) -> list[Tensor]:
    """Return the direction with that norm over all weights together; of no direction, no step."""
    factor = length / (norm(direction) + TINY)
    return [part * factor for part in direction]


def perturbed_gradient(
    context: ClientContext, shift: Sequence[Tensor], compute: Compute, *, counts: bool = False
) -> Sequence[Tensor]:
    """Return the gradient at w + shift; weights are put back and, unless the pass counts, BatchNorm statistics, too."""
    trainable = context.trainable
    state = [*trainable, *(() if counts else context.model.buffers())]
    kept = [tensor.detach().clone() for tensor in state]
    with torch.no_grad():
        for parameter, step in zip(trainable, shift, strict=True):
            parameter.add_(step)
    gradient = compute()
    copy_into(state, kept)
    return gradient
