"""What every kind of network offers."""

from __future__ import annotations

from collections import OrderedDict
from typing import Self

from pydantic import Field, PositiveFloat, PositiveInt, model_validator
from torch import nn

from feddecorr.models.heads import TEMPERATURE, TEMPERED, Head, build_head
from feddecorr.settings.kinds import Kind

Shape = tuple[int, int, int]
"""Channels, height and width of an image."""


class Model(Kind):
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

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        if self.temperature is not None and self.head not in TEMPERED:
            raise ValueError(f"the head '{self.head}' has no temperature: {' and '.join(TEMPERED)} have one")
        return self

    def build(self, shape: Shape, classes: int) -> nn.Module:
        """Return a fresh network for images of (channels, height, width), initialised at random."""
        features, width = self.features(shape)
        return nn.Sequential(OrderedDict(features=features, **self.layers_after(width, classes)))

    def features(self, shape: Shape) -> tuple[nn.Module, int]:
        """Return the layers from images to vectors, and the vectors' width d."""
        raise NotImplementedError

    def layers_after(self, width: int, classes: int) -> dict[str, nn.Module]:
        """Return the head for vectors of that width, by the names of its layers."""
        temperature = self.temperature or TEMPERATURE
        return build_head(width, classes, head=self.head, projection=self.projection, temperature=temperature)
