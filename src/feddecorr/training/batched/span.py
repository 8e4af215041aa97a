"""A layer that takes in the images themselves, trained in the span of the weights sent and the client's images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import pad
from torch.nn.utils.rnn import pad_sequence

from feddecorr.objective.optimizers import SGD
from feddecorr.training.batched.stacked import first_weights
from feddecorr.training.shards import Visits
from feddecorr.training.task import Task

TOUCH = 12
"""Multiplications in the time in which an optimizer moves one number: it waits for memory."""

MOST = 1 << 25
"""Numbers that images and their products may take, of all clients together: 128 MB."""


def spanned_weights(task: Task, model: nn.Module, visits: Sequence[Visits]) -> str | None:
    """Return the name of the weights that are best trained in the span, where the first client has the most to do.

    None where steps are not linear in weights and gradients, where images change, or where it would not pay.
    """
    training, name = task.experiment.training, first_weights(model)
    if (
        name is None
        or not isinstance(training.optimizer, SGD)
        or training.max_grad_norm is not None
        or task.experiment.data.augment
    ):
        return None
    outputs, inputs = model.get_parameter(name).shape
    most, images = visits[0], max(len(each.shard) for each in visits)
    seen = sum(map(sum, most.sizes))
    fits = len(visits) * (images + 1) * (images + inputs) <= MOST
    pays = _pays(inputs=inputs, outputs=outputs, images=images, steps=most.steps, visits=seen)
    return name if fits and pays else None


def _pays(*, inputs: int, outputs: int, images: int, steps: int, visits: int) -> bool:
    """Tell whether a client's steps need less work in the span, counted in multiplications.

    `visits` are the images of all steps together. Step by step there are two products with the weights; in the span
    there are two for each image, once, its products with all others, and small ones in every step.
    """
    weights = 2 * visits * inputs * outputs + TOUCH * steps * inputs * outputs
    once = 2 * images * inputs * outputs + images**2 * inputs
    return once + 2 * visits * images * outputs + TOUCH * steps * images * outputs < weights


class Span:
    """The weights W = s·W₀ + CᵀX of several clients: W₀ was sent to all, the rows of X are a client's images.

    The gradient of such a layer is GᵀX, with the slopes of its outputs as rows of G, those of images that are not in
    the batch being zero. SGD with momentum and weight decay is linear in weights and gradients. So it never leaves
    the span, and the same optimizer takes the same steps with s and C in place of W, where the gradient is G: all
    products with images are made once in a round, not in every step. Only rounding differs.
    """

    def __init__(self, sent: Tensor, images: Tensor, sizes: Sequence[int]) -> None:
        """Take weights of shape (outputs, inputs), and all clients' images of shape (images, inputs)."""
        self._sent = sent
        self._all, self._images = images, images.split(list(sizes))
        clients, even = len(sizes), len(set(sizes)) == 1
        self._rows = sizes[0] if even else max(sizes) + 1  # the last one is zero, where batches are filled up
        if even:
            stacked = images.view(clients, self._rows, -1)
        else:
            stacked = pad(pad_sequence(self._images, batch_first=True), (0, 0, 0, 1))
        self._start = stacked.flatten(0, 1) @ sent.T
        self._products = torch.bmm(stacked, stacked.mT).flatten(0, 1)
        self._starts = torch.arange(clients, device=sent.device).unsqueeze(1) * self._rows
        self._scale, self._coefficients = sent.new_ones(clients, 1, 1), sent.new_zeros(clients, self._rows, len(sent))
        self.narrow(clients)

    def narrow(self, clients: int) -> None:
        """Go on with the first clients alone."""
        self.trainable = [whole[:clients].requires_grad_() for whole in (self._scale, self._coefficients)]

    def __call__(self, places: Tensor) -> Tensor:
        """Return XWᵀ of the images at these places of each client, of shape (clients, n)."""
        every = (places + self._starts[: len(places)]).flatten()
        start, products = (
            table.index_select(0, every).unflatten(0, places.shape) for table in (self._start, self._products)
        )
        product: Tensor = _SpanProducts.apply(start, products, every, *self.trainable)  # type: ignore[no-untyped-call]  # PyTorch's
        return product

    def weights(self, client: int, out_buffers: Tensor | None = None) -> Tensor:
        """Return the weights of one client; in the room, if there is any where they are made."""
        images = self._images[client]
        coefficients, scale = self._coefficients[client, : len(images)], float(self._scale[client])
        return torch.addmm(self._sent, coefficients.T, images, beta=scale, out=_fitting(out_buffers, images))

    def mean(self, shares: Tensor, out_buffers: Tensor | None = None) -> Tensor:
        """Return the mean of all clients' weights by these shares, of shape (clients,), which add up to one."""
        weighed, scale = self._coefficients * shares.view(-1, 1, 1), float(self._scale.flatten() @ shares)
        coefficients = torch.cat([mine[: len(images)] for mine, images in zip(weighed, self._images, strict=True)])
        return torch.addmm(self._sent, coefficients.T, self._all, beta=scale, out=_fitting(out_buffers, self._all))


def _fitting(out_buffers: Tensor | None, like: Tensor) -> Tensor | None:
    """Return the room if products of this tensor can be made there."""
    return out_buffers if out_buffers is not None and out_buffers.device == like.device else None


class _SpanProducts(torch.autograd.Function):
    """Products of weights in the span with images; what goes back is the gradient's coordinates."""

    @staticmethod
    def forward(ctx: Any, start: Tensor, products: Tensor, places: Tensor, *held: Tensor) -> Tensor:
        scale, coefficients = held
        ctx.save_for_backward(places)
        ctx.shape = coefficients.shape
        return torch.baddbmm(start.mul_(scale), products, coefficients)

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor | None, ...]:
        (slope,) = slopes
        (places,) = ctx.saved_tensors
        rows = slope.new_zeros(ctx.shape[0] * ctx.shape[1], ctx.shape[2])
        return None, None, None, None, rows.index_copy_(0, places, slope.flatten(0, 1)).view(ctx.shape)
