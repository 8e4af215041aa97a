"""The networks of several clients as one: `torch.func.vmap` of the module over stacked parameters and buffers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel

from feddecorr.collapse.representation import (
    FeatureMaps,
    Representations,
    capture_feature_maps,
    capture_representations,
    find_classifier,
)
from feddecorr.core.states import State
from feddecorr.training.batched.linear import forward, linear_chain
from feddecorr.training.batched.rules import Rules


class Outputs(NamedTuple):
    """What the networks make of images: tensors of shape (clients, n, …)."""

    z: Tensor
    logits: Tensor
    levels: Sequence[Tensor]


class Stacked:
    """One module with stacked parameters, (clients, …): all begin with the weights sent, each with its own buffers.

    Call it while it is `watching`. The parameter named by `elsewhere` is not held here.
    """

    _seen: Representations

    def __init__(
        self, model: nn.Module, sent: Mapping[str, Tensor], buffers: Sequence[State], *, elsewhere: str | None = None
    ) -> None:
        self._model, self._levels, clients = model, FeatureMaps(), len(buffers)
        self._like = {name: each for name, each in model.named_parameters() if name != elsewhere}
        self._function, self._chain, self._classifier = functional(model), linear_chain(model), find_classifier(model)
        # Contiguous, whatever the module's own memory format is: vmap's rules for channels-last are incomplete.
        self._weights = {name: _out_buffers(clients, each).copy_(sent[name]) for name, each in self._like.items()}
        self._buffers = {name: _out_buffers(clients, each) for name, each in model.named_buffers()}
        for name, whole in self._buffers.items():
            for mine, own in zip(whole, buffers, strict=True):
                mine.copy_(own[name])
        self._call = vmap(self._call_one, randomness="error")  # random numbers are to come from each client's stream
        self.narrow(clients)

    @contextmanager
    def watching(self, *, levels: bool = False) -> Iterator[None]:
        """Catch representations and, if asked to, levels; attention runs in a form that vmap has a rule for."""
        with capture_representations(self._model) as self._seen, sdpa_kernel(SDPBackend.MATH):
            if not levels:
                yield
                return
            with capture_feature_maps(self._model) as self._levels:
                yield

    def narrow(self, clients: int) -> None:
        """Go on with the first clients alone."""
        self.weights = {
            name: whole[:clients].requires_grad_(self._like[name].requires_grad)
            for name, whole in self._weights.items()
        }
        self.buffers = {name: whole[:clients] for name, whole in self._buffers.items()}
        self.trainable = [weight for weight in self.weights.values() if weight.requires_grad]

    def __call__(self, x: Tensor, rows: Tensor | None = None) -> Outputs:
        """Return what the networks, or those in these rows, make of images (clients, n, …); buffers follow."""
        if self._chain:
            stacked = {id(self._like[name]): weight for name, weight in self.weights.items()}
            return Outputs(*forward(self._chain, self._classifier, stacked, x), [])
        weights, buffers = self.weights, self.buffers
        if rows is not None:
            weights, buffers = (
                {n: each.index_select(0, rows) for n, each in held.items()} for held in (weights, buffers)
            )
        with Rules():
            z, logits, levels, changed = self._call(weights, buffers, x.contiguous())
        with torch.no_grad():
            for name, buffer in changed.items():
                if rows is not None:
                    self.buffers[name].index_copy_(0, rows, buffer)
                elif buffer.data_ptr() != self.buffers[name].data_ptr():  # not updated in place
                    self.buffers[name].copy_(buffer)
        return Outputs(z, logits, levels)

    def _call_one(self, weights: State, buffers: State, x: Tensor) -> tuple[Tensor, Tensor, list[Tensor], State]:
        state = {**weights, **buffers}
        logits = self._function(state, x)
        return self._seen.z, logits, self._levels.pooled, {name: state[name] for name in buffers}

    def of(self, client: int) -> tuple[State, State]:
        """Return the weights and the buffers of one client, laid out as the module's."""
        weights = {name: _like(whole[client].detach(), self._like[name]) for name, whole in self._weights.items()}
        return weights, {name: whole[client].detach() for name, whole in self._buffers.items()}

    @torch.no_grad()
    def mean(self, shares: Tensor) -> State:
        """Return the mean of all clients' weights by these shares, which add up to one."""
        means = {name: torch.tensordot(shares, whole, 1) for name, whole in self._weights.items()}
        return {name: _like(mean, self._like[name]) for name, mean in means.items()}


def functional(model: nn.Module) -> Callable[[State, Tensor], Tensor]:
    """Return the module as a function of its parameters and buffers; what it assigns is written back to those.

    As `functional_call` with `tie_weights`, but a module that has two names is itself again afterwards.
    """
    known = {id(tensor): name for name, tensor in (*model.named_buffers(), *model.named_parameters())}
    ties = {
        f"{place}.{own}" if place else own: known[id(tensor)]
        for place, module in model.named_modules()
        for own, tensor in (*module.named_parameters(recurse=False), *module.named_buffers(recurse=False))
    }
    ties = {name: first for name, first in ties.items() if name != first}

    def call(state: State, x: Tensor) -> Tensor:
        state |= {name: state[first] for name, first in ties.items()}
        logits: Tensor = functional_call(model, state, (x,), tie_weights=False)
        return logits

    return call


def _out_buffers(clients: int, like: Tensor) -> Tensor:
    return torch.empty((clients, *like.shape), dtype=like.dtype, device=like.device)


def _like(tensor: Tensor, like: Tensor) -> Tensor:
    return tensor if tensor.stride() == like.stride() else torch.empty_like(like, requires_grad=False).copy_(tensor)
