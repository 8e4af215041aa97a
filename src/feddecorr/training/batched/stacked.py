"""Networks of several clients, their weights stacked: one product for each layer, over all clients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from feddecorr.collapse.representation import find_classifier
from feddecorr.core.states import State
from feddecorr.training.batched import joined_maps
from feddecorr.training.batched.chain import MAPPING, layers


class Stacked:
    """The networks of several clients, which all begin with the weights sent, each with its own buffers.

    Images come as (clients, n, channels, height, width), and logits leave as (clients, n, classes). The weights
    named by `elsewhere` are not held here: their products come in place of the images.
    """

    def __init__(
        self, model: nn.Module, sent: Mapping[str, Tensor], buffers: Sequence[State], *, elsewhere: str | None = None
    ) -> None:
        self._parameters = {name: each for name, each in model.named_parameters() if name != elsewhere}
        self._names = {id(each): name for name, each in [*model.named_parameters(), *model.named_buffers()]}
        self._elsewhere = elsewhere
        self._layers = [layer for _, layer in layers(model)]
        self._classifier = find_classifier(model)
        clients = len(buffers)
        self._whole = {name: _out_buffers(clients, each).copy_(sent[name]) for name, each in self._parameters.items()}
        self._buffers = {name: _out_buffers(clients, each) for name, each in model.named_buffers()}
        for name, whole in self._buffers.items():
            for mine, own in zip(whole, buffers, strict=True):
                mine.copy_(own[name])
        self.narrow(clients)

    def narrow(self, clients: int) -> None:
        """Go on with the first clients alone."""
        self._clients = clients
        trained = {name: parameter.requires_grad for name, parameter in self._parameters.items()}
        self.weights = {name: whole[:clients].requires_grad_(trained[name]) for name, whole in self._whole.items()}
        self.trainable = [weight for weight in self.weights.values() if weight.requires_grad]

    def __call__(self, x: Tensor, sizes: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Return the representations and the logits of images, of which the first are a client's batch."""
        z = x
        for layer in self._layers:
            if layer is self._classifier:
                z = x
            if isinstance(layer, MAPPING):
                x = self._map(joined_maps.join(x) if x.ndim == 5 else x, layer, sizes)
            elif isinstance(layer, nn.Flatten):
                x = joined_maps.flatten(x, self._clients) if x.ndim == 4 else x.flatten(2)
            else:
                x = self._multiply(x, layer) if isinstance(layer, nn.Linear) else layer(x)
        return z, x

    def _map(self, x: Tensor, layer: nn.Module, sizes: Sequence[int]) -> Tensor:
        if isinstance(layer, nn.Conv2d):
            return joined_maps.convolve(x, layer, self.weights[self._names[id(layer.weight)]], self._of(layer.bias))
        if isinstance(layer, nn.GroupNorm):
            return joined_maps.normalize_groups(x, layer, self._affine(layer), self._clients)
        if isinstance(layer, nn.BatchNorm2d):
            mean, variance, batches = (
                self._buffers[self._names[id(each)]][: self._clients]
                for each in (layer.running_mean, layer.running_var, layer.num_batches_tracked)
            )
            batches += layer.training
            return joined_maps.normalize_batches(x, layer, self._affine(layer), (mean, variance), sizes)
        alike: Tensor = layer(x)
        return alike

    def _affine(self, layer: nn.GroupNorm | nn.BatchNorm2d) -> joined_maps.Affine:
        return self._of(layer.weight), self._of(layer.bias)

    def _multiply(self, x: Tensor, layer: nn.Linear) -> Tensor:
        weight = self._names[id(layer.weight)]
        bias = self._of(layer.bias)
        if weight == self._elsewhere:
            return x if bias is None else x + bias.unsqueeze(1)
        product: Tensor = _Products.apply(x, self.weights[weight], bias)  # type: ignore[no-untyped-call]  # PyTorch's
        return product

    def _of(self, parameter: Tensor | None) -> Tensor | None:
        return None if parameter is None else self.weights[self._names[id(parameter)]]

    def of(self, client: int) -> tuple[State, State]:
        """Return the weights and the buffers of one client."""
        weights, buffers = (
            {name: whole[client].detach() for name, whole in held.items()} for held in (self._whole, self._buffers)
        )
        return weights, buffers

    @torch.no_grad()
    def mean(self, shares: Tensor) -> State:
        """Return the mean of all clients' weights by these shares, which add up to one."""
        return {name: torch.tensordot(shares, whole, 1) for name, whole in self._whole.items()}


def _out_buffers(clients: int, like: Tensor) -> Tensor:
    """Return room for a tensor of each client, each laid out like this one."""
    shape, strides = (clients, *like.shape), (like.numel(), *like.stride())
    return torch.empty_strided(shape, strides, dtype=like.dtype, device=like.device)


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
