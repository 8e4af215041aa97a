"""Networks of several clients, their weights stacked: one product for each layer, over all clients."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from feddecorr.models import placement
from feddecorr.representation import find_classifier
from feddecorr.states import State

ELEMENTWISE = (nn.Identity, nn.ReLU, nn.LeakyReLU, nn.ELU, nn.GELU, nn.SiLU, nn.Sigmoid, nn.Tanh, nn.Softplus)
"""Layers that treat every number alike, whosever it is."""


def obstacle(model: nn.Module) -> str | None:
    """Return why networks of this kind are not stacked; None if they are.

    Every layer has to treat each image by itself, so that batches of different sizes can be filled up: BatchNorm does
    not.
    """
    layers = list(_layers(model))
    obstacles = (
        *(_layer_obstacle(layer, f"layer '{name}'" if name else "network") for name, layer in layers),
        _order_obstacle([layer for _, layer in layers], find_classifier(model)),
        *(f"its buffer '{name}' belongs to no layer" for name, _ in model.named_buffers()),
        *(f"its layer '{name}' has a hook, which would not be called" for name in _hooked(model)),
    )
    return next(filter(None, obstacles), None)


def _layer_obstacle(layer: nn.Module, place: str) -> str | None:
    if type(layer) not in (nn.Linear, nn.Flatten, *ELEMENTWISE):
        return f"its {place} is of the kind {type(layer).__name__}, and only fully connected ones are put side by side"
    if isinstance(layer, nn.Flatten) and (layer.start_dim, layer.end_dim) != (1, -1):
        return f"its {place} flattens some dimensions only"
    return None


def _order_obstacle(layers: Sequence[nn.Module], classifier: nn.Module) -> str | None:
    if not isinstance(next((layer for layer in layers if isinstance(layer, nn.Linear | nn.Flatten)), None), nn.Flatten):
        return "its first layer takes images that are not flattened"
    if not isinstance(classifier, nn.Linear) or not any(layer is classifier for layer in layers):
        return "the layer whose input is its representation is not a linear one"
    return None


def _hooked(model: nn.Module) -> Iterator[str]:
    """Yield the names of layers with hooks, but for those that say how a network runs."""
    for name, module in model.named_modules():
        hooks = [*module._forward_hooks.values(), *module._forward_pre_hooks.values()]
        if any(hook.__module__ != placement.__name__ for hook in hooks):
            yield name


def first_products(model: nn.Module) -> str | None:
    """Return the name of the weights that are multiplied with the images themselves, and with nothing else.

    None where there are none, where they are not trained, or where they are the classifier's.
    """
    first, *others = [layer for _, layer in _layers(model) if not isinstance(layer, nn.Flatten)]
    if not isinstance(first, nn.Linear) or first is find_classifier(model) or not first.weight.requires_grad:
        return None
    if any(parameter is first.weight for layer in others for parameter in layer.parameters()):
        return None
    return next(name for name, parameter in model.named_parameters() if parameter is first.weight)


class Stacked:
    """The networks of several clients, which all begin with the weights sent.

    Images come as (clients, n, channels, height, width), and logits leave as (clients, n, classes). The weights
    named by `elsewhere` are not held here: their products come in place of the images.
    """

    def __init__(
        self, model: nn.Module, sent: Mapping[str, Tensor], clients: int, *, elsewhere: str | None = None
    ) -> None:
        self._parameters = {name: each for name, each in model.named_parameters() if name != elsewhere}
        self._names = {id(parameter): name for name, parameter in model.named_parameters()}
        self._elsewhere = elsewhere
        self._layers = [layer for _, layer in _layers(model)]
        self._classifier = find_classifier(model)
        self._whole = {
            name: sent[name].to(parameter.detach()).expand(clients, *parameter.shape).clone()
            for name, parameter in self._parameters.items()
        }
        self.narrow(clients)

    def narrow(self, clients: int) -> None:
        """Go on with the first clients alone."""
        trained = {name: parameter.requires_grad for name, parameter in self._parameters.items()}
        self.weights = {name: whole[:clients].requires_grad_(trained[name]) for name, whole in self._whole.items()}
        self.trainable = [weight for weight in self.weights.values() if weight.requires_grad]

    def __call__(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the representations and the logits."""
        z = x
        for layer in self._layers:
            if layer is self._classifier:
                z = x
            if isinstance(layer, nn.Linear):
                x = self._multiply(x, layer)
            else:
                x = x.flatten(2) if isinstance(layer, nn.Flatten) else layer(x)
        return z, x

    def _multiply(self, x: Tensor, layer: nn.Linear) -> Tensor:
        weight = self._names[id(layer.weight)]
        bias = None if layer.bias is None else self.weights[self._names[id(layer.bias)]]
        if weight == self._elsewhere:
            return x if bias is None else x + bias.unsqueeze(1)
        product: Tensor = _Products.apply(x, self.weights[weight], bias)  # type: ignore[no-untyped-call]  # PyTorch's
        return product

    def of(self, client: int) -> State:
        """Return the weights of one client."""
        return {name: whole[client].detach() for name, whole in self._whole.items()}


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


def _layers(model: nn.Module, place: str = "") -> Iterator[tuple[str, nn.Module]]:
    """Yield the layers with their names, in the order in which they are called."""
    if type(model) is not nn.Sequential:
        yield place, model
        return
    names = model._modules  # named_children tells a layer that is called twice only once
    for name, child in zip(names, model, strict=True):
        yield from _layers(child, f"{place}.{name}" if place else name)
