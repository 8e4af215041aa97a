"""The base classes of the networks, and the running statistics of their BatchNorm."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Literal, Self

import torch
from pydantic import Field, PositiveFloat, PositiveInt, field_validator, model_validator
from torch import Tensor, nn
from torch.nn.functional import conv2d

from feddecorr.core.registry import Config
from feddecorr.errors import UserError
from feddecorr.models.heads import TEMPERATURE, TEMPERED, Head, build_head
from feddecorr.models.weights import load_weights, read_weights, weights_digest

Shape = tuple[int, int, int]
"""Channels, height and width of an image."""

CHANNEL_MULTIPLE = 8
"""Scaled networks have a multiple of this number of channels in every layer."""

STANDARD_EPSILON = 1e-5
"""Added to the standard deviation of a filter's weights, as in the code of Qiao et al. and of FedWSQ."""


class Model(Config):
    """A network that maps images to logits through a final linear classifier.

    The classifier's input is the representation; the module that `build` returns has no other obligation.
    """

    projection: PositiveInt | None = Field(
        None, description="width of MOON's projection head before the classifier; by default none"
    )
    head: Head = Field(
        "linear",
        description="the classifier: linear, linear after normalizing its input, a fixed simplex, or prototypes that "
        "the server moves",
    )
    temperature: PositiveFloat | None = Field(
        None, description=f"divides the logits of the heads {' and '.join(TEMPERED)}; by default {TEMPERATURE}"
    )

    pins: ClassVar[Mapping[str, str]] = {"weights": "sha256"}

    weights: Path | None = Field(
        None, description="file with all initial weights (safetensors or torch.save); by default drawn at random"
    )
    sha256: str = Field("", description="digest of these weights; filled in when a run begins")

    @field_validator("weights")
    @classmethod
    def _resolve(cls, path: Path | None) -> Path | None:
        return path and path.expanduser().absolute()  # a run may be resumed from elsewhere

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        if self.temperature is not None and self.head not in TEMPERED:
            raise ValueError(f"the head '{self.head}' has no temperature: {', '.join(TEMPERED)} have one")
        return self

    def build(self, shape: Shape, classes: int) -> nn.Module:
        """Return a new network for images of (channels, height, width), initialised at random."""
        features, width = self.features(shape)
        return nn.Sequential(OrderedDict(features=features, **self.head_layers(width, classes)))

    def find_weights(self) -> Path | None:
        """Return the file of initial weights, if there is one."""
        return self.weights

    def load_initial_weights(self, network: nn.Module) -> None:
        """Load the file of initial weights, if there is one: the server, and everybody if some of it is frozen."""
        if (path := self.find_weights()) is not None:
            load_weights(network, path, sha256=self.sha256)

    def pinned(self) -> Self:
        """Return the same model with the digest of the weights in the file."""
        if self.sha256 or (path := self.find_weights()) is None:
            return self
        return self.model_copy(update={"sha256": weights_digest(read_weights(path))})

    def scales_pixels(self) -> bool:
        """Return whether the network takes pixels from 0 to 1 and standardizes them itself."""
        return False

    def features(self, shape: Shape) -> tuple[nn.Module, int]:
        """Return the layers from images to vectors, and the vectors' width d."""
        raise NotImplementedError

    def head_layers(self, width: int, classes: int) -> dict[str, nn.Module]:
        """Return the layers, by name, from vectors of that width to logits."""
        temperature = self.temperature or TEMPERATURE
        return build_head(width, classes, head=self.head, projection=self.projection, temperature=temperature)


class ConvolutionalModel(Model):
    """A network in which BatchNorm or GroupNorm follows each convolution."""

    norm: Literal["batch", "group"] = Field("batch", description="BatchNorm or GroupNorm (no running statistics)")
    groups: PositiveInt = Field(8, description="groups of GroupNorm; fewer where they don't divide the channels")
    weight_standardization: bool = Field(
        False, description="convolve with filters whose weights have mean 0 and variance 1; meant for GroupNorm"
    )

    def convolution(self, before: int, after: int, size: int = 3, *, stride: int = 1, groups: int = 1) -> nn.Sequential:
        """Return a convolution that keeps height and width (up to the stride), and its normalization."""
        kind = StandardizedConv2d if self.weight_standardization else nn.Conv2d
        return nn.Sequential(
            kind(before, after, size, stride=stride, padding=size // 2, groups=groups, bias=False),
            self._norm(after),
        )

    def _norm(self, channels: int) -> nn.Module:
        if self.norm == "batch":
            return nn.BatchNorm2d(channels)
        return nn.GroupNorm(math.gcd(self.groups, channels), channels)


class ScalableModel(ConvolutionalModel):
    """A published network with options that make it thinner and its feature maps coarser, to save time."""

    width: PositiveFloat = Field(1.0, description="factor of every layer's channels, rounded to multiples of 8")
    stem: Literal[1, 2] = Field(1, description="stride of the first convolution; 2 quarters the work of all layers")

    def channels(self, published: int) -> int:
        """Scale to the nearest multiple of 8 that is at most a tenth too small (Sandler et al., 2018)."""
        exact = self.width * published
        nearest = max(CHANNEL_MULTIPLE, int(exact + CHANNEL_MULTIPLE / 2) // CHANNEL_MULTIPLE * CHANNEL_MULTIPLE)
        return nearest + CHANNEL_MULTIPLE if nearest < 0.9 * exact else nearest


class StandardizedConv2d(nn.Conv2d):
    """Convolves with (W − mean)/(standard deviation + ε)/√n, for each filter of n weights (Qiao et al., 2019).

    What is trained, sent and decayed is W itself. The norm that follows takes √n out again; with it, maps have the size
    of their inputs, also where BatchNorm has no statistics yet.
    """

    def forward(self, x: Tensor) -> Tensor:
        """Return the maps."""
        variance, mean = torch.var_mean(self.weight, dim=(1, 2, 3), correction=0, keepdim=True)
        scale = math.sqrt(self.weight[0].numel())
        weight = (self.weight - mean) / (scale * (variance.sqrt() + STANDARD_EPSILON))
        return conv2d(x, weight, self.bias, self.stride, self.padding, self.dilation, self.groups)


class Residual(nn.Module):
    """The sum of a path and a shortcut around it."""

    def __init__(self, path: nn.Module, shortcut: nn.Module) -> None:
        super().__init__()
        self.path = path
        self.shortcut = shortcut

    def forward(self, x: Tensor) -> Tensor:
        """Add the two."""
        total: Tensor = self.path(x) + self.shortcut(x)
        return total


def pool() -> nn.Sequential:
    """Return the mean over height and width, whatever they are."""
    return nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())


def freeze_statistics(model: nn.Module) -> None:
    """Normalize by the running statistics and keep them unchanged, until the next `train()` or `eval()`."""
    for module in _with_statistics(model):
        module.eval()


def use_batch_statistics(model: nn.Module, images: int, batch: int) -> None:
    """Normalize each batch by its own statistics from now on, even in evaluation.

    Raises an error if the network has no running statistics, or if a batch would hold a single image, which has no
    statistics of its own.
    """
    modules = _with_statistics(model)
    if not modules:
        raise UserError("the model keeps no BatchNorm statistics: there is nothing to replace by those of a batch")
    if 1 in (batch, images % batch):
        raise UserError(
            f"{images} images in batches of {batch} (evaluation.batch) leave a batch of one, which has no statistics"
        )
    for module in modules:
        for name in ("running_mean", "running_var", "num_batches_tracked"):
            setattr(module, name, None)
        module.track_running_stats = False  # type: ignore[assignment]  # modules take any attribute


def _with_statistics(model: nn.Module) -> list[nn.Module]:
    return [module for module in model.modules() if isinstance(getattr(module, "running_mean", None), Tensor)]
