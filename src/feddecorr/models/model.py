"""What every kind of network offers."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Self

from pydantic import Field, PositiveFloat, PositiveInt, field_validator, model_validator
from torch import nn

from feddecorr.core.registry import Config
from feddecorr.models.heads import TEMPERATURE, TEMPERED, Head, build_head
from feddecorr.models.weights import fill, read_weights, weights_digest

Shape = tuple[int, int, int]
"""Channels, height and width of an image."""


class Model(Config):
    """A network that maps images to logits through a final linear classifier.

    The classifier's input is the representation; nothing else is asked of the module that `build` returns.
    """

    projection: PositiveInt | None = Field(
        None, description="width of MOON's projection head before the classifier; by default none"
    )
    head: Head = Field(
        "linear", description="the classifier: linear, also after normalization of what it takes in, or a fixed simplex"
    )
    temperature: PositiveFloat | None = Field(
        None, description=f"by which logits of the heads {' and '.join(TEMPERED)} are divided; there {TEMPERATURE}"
    )

    pins: ClassVar[Mapping[str, str]] = {"weights": "sha256"}

    weights: Path | None = Field(
        None, description="file of the first weights, all of them (safetensors or torch.save); by default drawn"
    )
    sha256: str = Field("", description="digest of these weights; filled in when a run begins")

    @field_validator("weights")
    @classmethod
    def _resolve(cls, path: Path | None) -> Path | None:
        return path and path.expanduser().absolute()  # a run may be resumed from elsewhere

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        if self.temperature is not None and self.head not in TEMPERED:
            raise ValueError(f"the head '{self.head}' has no temperature: {' and '.join(TEMPERED)} have one")
        return self

    def build(self, shape: Shape, classes: int) -> nn.Module:
        """Return a fresh network for images of (channels, height, width), initialised at random."""
        features, width = self.features(shape)
        return nn.Sequential(OrderedDict(features=features, **self.layers_after(width, classes)))

    def begin(self, network: nn.Module) -> None:
        """Give the network its first weights, if they come from a file; they are the server's alone to give."""
        if self.weights is not None:
            fill(network, self.weights, sha256=self.sha256)

    def pinned(self) -> Self:
        """Return the same with the digest of what lies in the file of weights now."""
        if self.weights is None or self.sha256:
            return self
        return self.model_copy(update={"sha256": weights_digest(read_weights(self.weights))})

    def features(self, shape: Shape) -> tuple[nn.Module, int]:
        """Return the layers from images to vectors, and the vectors' width d."""
        raise NotImplementedError

    def layers_after(self, width: int, classes: int) -> dict[str, nn.Module]:
        """Return the head for vectors of that width, by the names of its layers."""
        temperature = self.temperature or TEMPERATURE
        return build_head(width, classes, head=self.head, projection=self.projection, temperature=temperature)
