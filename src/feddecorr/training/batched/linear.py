"""Multilayer perceptrons without vmap: two fifths of the time of their tiny steps would be its calls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from feddecorr.collapse.representation import find_classifier

ELEMENTWISE = (nn.Identity, nn.ReLU, nn.LeakyReLU, nn.ELU, nn.GELU, nn.SiLU, nn.Sigmoid, nn.Tanh, nn.Softplus)

Chain = list[tuple[str, nn.Module]]
"""Layers with their names, in the order in which they are called."""


def linear_chain(model: nn.Module) -> Chain:
    """Return the layers of a network of flat images, linear layers and activations alone; none of any other."""
    first, *others = _layers(model)
    if type(first[1]) is not nn.Flatten or (first[1].start_dim, first[1].end_dim) != (1, -1):
        return []
    plain = all(type(layer) in (nn.Linear, *ELEMENTWISE) for _, layer in others)
    return others if plain and any(layer is find_classifier(model) for _, layer in others) else []


def first_weights(model: nn.Module) -> str | None:
    """Return the name of the trained weights of a chain that are multiplied with the images, and with nothing else.

    None where they are the classifier's: what that takes in is looked at.
    """
    (name, first), *others = linear_chain(model) or [("", model)]
    if type(first) is not nn.Linear or first is find_classifier(model) or not first.weight.requires_grad:
        return None
    used = any(parameter is first.weight for _, layer in others for parameter in layer.parameters())
    return None if used else f"{name}.weight"


def forward(chain: Chain, classifier: nn.Module, weights: Mapping[int, Tensor], x: Tensor) -> tuple[Tensor, Tensor]:
    """Return representations and logits by weights that are stacked, each in place of the parameter with this id.

    A layer without weights there takes in products with them.
    """
    z = x = x.flatten(2)
    for _, layer in chain:
        z = x if layer is classifier else z
        if not isinstance(layer, nn.Linear):
            x = layer(x)
            continue
        weight, bias = weights.get(id(layer.weight)), None if layer.bias is None else weights[id(layer.bias)]
        if weight is not None:
            x = _Products.apply(x, weight, bias)  # type: ignore[no-untyped-call]  # PyTorch's
        elif bias is not None:
            x = x + bias.unsqueeze(1)
    return z, x


def _layers(model: nn.Module, place: str = "") -> Iterator[tuple[str, nn.Module]]:
    if type(model) is not nn.Sequential:
        yield place, model
        return
    for name, child in zip(model._modules, model, strict=True):  # named_children has a layer that is called twice once
        yield from _layers(child, f"{place}.{name}" if place else name)


class _Products(torch.autograd.Function):
    """The products xWᵀ + b of each client, whose gradient lies in memory as W does; PyTorch's own is transposed."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        return torch.bmm(x, weight.mT) if bias is None else torch.baddbmm(bias.unsqueeze(1), x, weight.mT)

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor | None, ...]:
        (slope,) = slopes
        x, weight = ctx.saved_tensors
        wanted = ctx.needs_input_grad
        return (
            torch.bmm(slope, weight) if wanted[0] else None,
            torch.bmm(slope.mT, x) if wanted[1] else None,
            slope.sum(1) if wanted[2] else None,
        )
