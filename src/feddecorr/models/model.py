"""What every kind of network offers."""

from __future__ import annotations

from collections import OrderedDict

from pydantic import Field, PositiveInt
from torch import nn

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

    def build(self, shape: Shape, classes: int) -> nn.Module:
        """Return a fresh network for images of (channels, height, width), initialised at random."""
        features, width = self.features(shape)
        return nn.Sequential(OrderedDict(features=features, **head(width, classes, self.projection)))

    def features(self, shape: Shape) -> tuple[nn.Module, int]:
        """Return the layers from images to vectors, and the vectors' width d."""
        raise NotImplementedError


def head(width: int, classes: int, projection: int | None) -> dict[str, nn.Module]:
    """Return the classifier, after the projection head if one is wanted.

    The head is that of MOON (Li, He and Song, 2021): two linear layers with ReLU between. The representation
    is what the classifier takes in, so with a head it is the projected one.
    """
    if projection is None:
        return {"classifier": nn.Linear(width, classes)}
    layers = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, projection))
    return {"projection": layers, "classifier": nn.Linear(projection, classes)}
