"""The networks of several clients as one: `torch.func.vmap` of the module, with faster rules where there are any."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import adaptive_avg_pool2d, avg_pool2d, batch_norm, conv2d, group_norm, max_pool2d
from torch.overrides import TorchFunctionMode

from feddecorr.collapse.representation import (
    FeatureMaps,
    Representations,
    capture_feature_maps,
    capture_representations,
    find_classifier,
)
from feddecorr.core.states import State

BLOCK = 8
"""Channels that a processor's kernels take at once, where there are as many: else channels last are twice as fast."""


class Rules(TorchFunctionMode):
    """While it is open, the functions that have a rule here are called by it."""

    def __torch_function__(
        self, function: Callable[..., Any], _types: object, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        return RULES.get(function, function)(*args, **(kwargs or {}))


def _convolve(  # noqa: PLR0913, PLR0917 - as conv2d
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """Convolve the maps of all clients next to each other, channels last, with groups; vmap leaves them contiguous."""
    if x.ndim != 4 or not (weight.shape[0] % BLOCK or weight.shape[1] % BLOCK):
        return conv2d(x.contiguous(), weight, bias, stride, padding, dilation, groups)

    def joined(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        flat = None if bias is None else bias.flatten()
        return conv2d(x, weight.flatten(0, 1), flat, stride, padding, dilation, len(weight) * groups)

    found: Tensor = _Joined.apply(joined, x, weight, bias)  # type: ignore[no-untyped-call]  # PyTorch's
    return found


def _pool(x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Pool the maps of all clients next to each other, channels last."""
    several = x.ndim == 4 and not kwargs.get("return_indices")
    pooled: Tensor = (
        _Joined.apply(lambda x: max_pool2d(x, *args, **kwargs), x)  # type: ignore[no-untyped-call]  # PyTorch's
        if several
        else max_pool2d(x, *args, **kwargs)
    )
    return pooled


def _contiguous(function: Callable[..., Tensor], x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Call a function that vmap cannot do with channels last."""
    return function(x.contiguous(), *args, **kwargs)


RULES: dict[Callable[..., Any], Callable[..., Any]] = {
    **{each: partial(_contiguous, each) for each in (adaptive_avg_pool2d, avg_pool2d, batch_norm, group_norm)},
    conv2d: _convolve,
    max_pool2d: _pool,
}


class _Joined(torch.autograd.Function):
    """A function of maps (n, clients · channels, height, width) and stacked parameters, under vmap over the clients.

    Its rule consists of ordinary operations, which autograd records: no gradient is to be given.
    """

    @staticmethod
    def forward(function: Callable[..., Tensor], x: Tensor, *parameters: Tensor) -> Tensor:
        raise NotImplementedError("only for vmap")

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        """Keep nothing."""

    @staticmethod
    def vmap(info: Any, in_dims: Any, function: Callable[..., Tensor], *tensors: Tensor | None) -> tuple[Tensor, int]:
        """Put the maps next to each other, and stack what acts on them."""
        x, *parameters = (_stack(each, dim, info.batch_size) for each, dim in zip(tensors, in_dims[1:], strict=True))
        assert x is not None  # noqa: S101 - for the types
        joined = x.transpose(0, 1).flatten(1, 2).contiguous(memory_format=torch.channels_last)
        return function(joined, *parameters).unflatten(1, (info.batch_size, -1)), 1


def _stack(tensor: Tensor | None, dim: int | None, clients: int) -> Tensor | None:
    """Return a tensor with the clients first, also where it is the same for all."""
    if tensor is None:
        return None
    return tensor.expand(clients, *tensor.shape) if dim is None else tensor.movedim(dim, 0)


ELEMENTWISE = (nn.Identity, nn.ReLU, nn.LeakyReLU, nn.ELU, nn.GELU, nn.SiLU, nn.Sigmoid, nn.Tanh, nn.Softplus)

Chain = list[tuple[str, nn.Module]]
"""Layers with their names, in the order in which they are called."""


def linear_chain(model: nn.Module) -> Chain:
    """Return the layers of a network of flat images, linear layers and activations alone; none of any other."""
    first, *others = _layers(model)
    if type(first[1]) is not nn.Flatten or (first[1].start_dim, first[1].end_dim) != (1, -1):
        return []
    plain = all(type(layer) in (nn.Linear, *ELEMENTWISE) for _, layer in others) and not any(
        isinstance(value, Tensor)
        for _, layer in others
        for value in vars(layer).values()  # frozen weights
    )
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
        self._model, self._maps, clients = model, FeatureMaps(), len(buffers)
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
            with capture_feature_maps(self._model) as self._maps:
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
        z = self._seen.z
        return z, logits, self._maps.levels(z), {name: state[name] for name in buffers}

    def of(self, client: int) -> tuple[State, State]:
        """Return the weights and the buffers of one client, laid out as the module's."""
        weights = {name: _like(whole[client].detach(), self._like[name]) for name, whole in self._weights.items()}
        return weights, {name: whole[client].detach() for name, whole in self._buffers.items()}

    @torch.no_grad()
    def mean(self, shares: Tensor) -> State:
        """Return the mean of all clients' weights by these shares, which add up to one."""
        means = {
            name: torch.tensordot(shares, whole, 1) if self._like[name].requires_grad else whole[0]
            for name, whole in self._weights.items()
        }
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
