"""Networks that are chains of layers which several clients can train side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import nn

from feddecorr.collapse.representation import find_classifier
from feddecorr.training import placement

ELEMENTWISE = (nn.Identity, nn.ReLU, nn.LeakyReLU, nn.ELU, nn.GELU, nn.SiLU, nn.Sigmoid, nn.Tanh, nn.Softplus)
"""Layers that treat every number alike, whosever it is."""

CHANNELWISE = (nn.ZeroPad2d, nn.MaxPool2d, nn.AvgPool2d, nn.AdaptiveAvgPool2d)
"""Layers that treat every channel alike, whosever it is."""

MAPPING = (nn.Conv2d, nn.BatchNorm2d, nn.GroupNorm, *CHANNELWISE)
"""Layers that take in feature maps."""


def obstacle(model: nn.Module) -> str | None:
    """Return why networks of this kind are not put side by side; None if they are."""
    named = list(layers(model))
    obstacles = (
        *(_layer_obstacle(layer, f"layer '{name}'" if name else "network") for name, layer in named),
        _order_obstacle([layer for _, layer in named], find_classifier(model)),
        *(f"its buffer '{name}' belongs to no layer" for name in _ownerless(model)),
        *(f"its layer '{name}' has a hook, which would not be called" for name in _hooked(model)),
    )
    return next(filter(None, obstacles), None)


def _layer_obstacle(layer: nn.Module, place: str) -> str | None:
    if type(layer) not in (nn.Linear, nn.Flatten, *MAPPING, *ELEMENTWISE):
        return f"its {place} is of the kind {type(layer).__name__}, which is not put side by side"
    if isinstance(layer, nn.Flatten) and (layer.start_dim, layer.end_dim) != (1, -1):
        return f"its {place} flattens some dimensions only"
    if isinstance(layer, nn.Conv2d) and layer.padding_mode != "zeros":
        return f"its {place} has a margin that is not zero ({layer.padding_mode})"
    if isinstance(layer, nn.BatchNorm2d) and (layer.running_mean is None or layer.momentum is None):
        return f"its {place} keeps no running statistics with momentum"
    return None


def _order_obstacle(chain: Sequence[nn.Module], classifier: nn.Module) -> str | None:
    kinds = [type(layer) for layer in chain]
    first = kinds.index(nn.Flatten) if nn.Flatten in kinds else len(kinds)
    if nn.Linear in kinds[:first] or first == len(kinds):
        return "it has a linear layer for images or maps that are not flattened"
    if any(kind in MAPPING for kind in kinds[first:]):
        return "it has layers for maps after those were flattened"
    if not isinstance(classifier, nn.Linear) or not any(layer is classifier for layer in chain):
        return "the layer whose input is its representation is not a linear one"
    return None


def _ownerless(model: nn.Module) -> Iterator[str]:
    """Yield the names of buffers that are not BatchNorm's own statistics."""
    known = {"running_mean", "running_var", "num_batches_tracked"}
    for name, _ in model.named_buffers():
        owner, _, own = name.rpartition(".")
        if type(model.get_submodule(owner)) is not nn.BatchNorm2d or own not in known:
            yield name


def _hooked(model: nn.Module) -> Iterator[str]:
    """Yield the names of layers with hooks, but for those that say how a network runs."""
    for name, module in model.named_modules():
        hooks = [*module._forward_hooks.values(), *module._forward_pre_hooks.values()]
        if any(hook.__module__ != placement.__name__ for hook in hooks):
            yield name


def makes_maps(model: nn.Module) -> bool:
    """Tell whether the network makes feature maps on its way to the representation."""
    return any(isinstance(layer, nn.Conv2d) for _, layer in layers(model))


@torch.no_grad()
def multiplications(model: nn.Module, shape: tuple[int, int, int]) -> int:
    """Return how many multiplications of weights a chain needs for one image of (channels, height, width)."""
    device = next((parameter.device for parameter in model.parameters()), None)
    count, x = 0, torch.zeros(1, *shape, device=device)
    for _, layer in layers(model.eval()):
        x = layer(x)
        if isinstance(layer, nn.Linear | nn.Conv2d):
            count += x.numel() * layer.weight[0].numel()
    return count


def first_products(model: nn.Module) -> str | None:
    """Return the name of the weights that are multiplied with the images themselves, and with nothing else.

    None where there are none, where they are not trained, or where they are the classifier's.
    """
    first, *others = [layer for _, layer in layers(model) if not isinstance(layer, nn.Flatten)]
    if not isinstance(first, nn.Linear) or first is find_classifier(model) or not first.weight.requires_grad:
        return None
    if any(parameter is first.weight for layer in others for parameter in layer.parameters()):
        return None
    return next(name for name, parameter in model.named_parameters() if parameter is first.weight)


def layers(model: nn.Module, place: str = "") -> Iterator[tuple[str, nn.Module]]:
    """Yield the layers with their names, in the order in which they are called."""
    if type(model) is not nn.Sequential:
        yield place, model
        return
    names = model._modules  # named_children tells a layer that is called twice only once
    for name, child in zip(names, model, strict=True):
        yield from layers(child, f"{place}.{name}" if place else name)
