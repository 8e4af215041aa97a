"""Feature maps of several clients, their channels one client's after another's: (n, clients · channels, height, width).

So a convolution of every client's maps is one with groups, and what looks at channels one by one needs no change.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import batch_norm, conv2d, group_norm

Statistics = tuple[Tensor, Tensor]
"""Running means and variances, of shape (clients, channels) each."""

Affine = tuple[Tensor | None, Tensor | None]
"""Stacked factors of channels and what is added to them, if anything."""


class TooFewError(ValueError):
    """The batch of the client at this place has a single value for each channel, of which there is no variance."""

    def __init__(self, place: int) -> None:
        super().__init__("expected more than 1 value per channel in training: BatchNorm has no variance of one value")
        self.place = place


def join(x: Tensor) -> Tensor:
    """Put maps of shape (clients, n, channels, height, width) beside each other, channels last in memory."""
    return x.transpose(0, 1).flatten(1, 2).contiguous(memory_format=torch.channels_last)


def flatten(x: Tensor, clients: int) -> Tensor:
    """Return joined maps as vectors, of shape (clients, n, d)."""
    apart: Tensor = x.unflatten(1, (clients, -1))
    return apart.transpose(0, 1).flatten(2)


def convolve(x: Tensor, layer: nn.Conv2d, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Convolve everybody's maps with its own weights, which are stacked."""
    groups = len(weight) * layer.groups
    own = None if bias is None else bias.flatten()
    return conv2d(x, weight.flatten(0, 1), own, layer.stride, layer.padding, layer.dilation, groups)


def normalize_groups(x: Tensor, layer: nn.GroupNorm, affine: Affine, clients: int) -> Tensor:
    """Normalize groups of channels, image by image."""
    weight, bias = map(_flat, affine)
    return group_norm(x, clients * layer.num_groups, weight, bias, layer.eps)


def normalize_batches(
    x: Tensor, layer: nn.BatchNorm2d, affine: Affine, running: Statistics, sizes: Sequence[int]
) -> Tensor:
    """Normalize everybody's channels by the statistics of its own batch, and let its running ones follow.

    A client's first images are its batch, as many as its size; what fills it up has no part in the statistics. Where
    the layer is in evaluation mode, the running statistics are used and left as they are.
    """
    weight, bias = map(_flat, affine)
    mean, variance = (each.flatten() for each in running)  # in place: they have no gaps
    if layer.training and min(sizes) * x.shape[2:].numel() == 1:
        raise TooFewError(sizes.index(1))
    if not layer.training or len(set(sizes)) == 1:
        return batch_norm(x, mean, variance, weight, bias, layer.training, layer.momentum or 0.0, layer.eps)
    return _normalize_filled(x, layer, (weight, bias), (mean, variance), sizes)


def _normalize_filled(
    x: Tensor, layer: nn.BatchNorm2d, affine: Affine, running: Statistics, sizes: Sequence[int]
) -> Tensor:
    """Do the same for batches of different sizes, step by step."""
    counts = torch.tensor(sizes, device=x.device)
    rows = torch.arange(len(x), device=x.device).unsqueeze(1)
    values = counts.to(x.dtype) * x.shape[2:].numel()
    share = ((rows < counts) / values).repeat_interleave(layer.num_features, 1)[..., None, None]
    mean = (x * share).sum((0, 2, 3), keepdim=True)
    centred = x - mean
    variance = (centred.square() * share).sum((0, 2, 3), keepdim=True)
    with torch.no_grad():
        unbiased = variance.flatten() * (values / (values - 1)).repeat_interleave(layer.num_features)
        for follower, found in zip(running, (mean.flatten(), unbiased), strict=True):
            follower.lerp_(found.to(follower), layer.momentum or 0.0)
    weight, bias = affine
    scale = (variance + layer.eps).rsqrt()
    normal = centred * (scale if weight is None else scale * weight.view_as(scale))
    return normal if bias is None else normal + bias.view_as(scale)


def _flat(stacked: Tensor | None) -> Tensor | None:
    return None if stacked is None else stacked.flatten()
