"""Networks that others wrote, and those from your own code."""

from __future__ import annotations

import inspect
from collections import OrderedDict
from typing import Any

import torch
from pydantic import Field, ValidationInfo, field_validator
from torch import Tensor, nn

from feddecorr.collapse.representation import capture_representations, find_classifier
from feddecorr.core.trust import import_named
from feddecorr.errors import UserError
from feddecorr.models.model import Model, Shape


class Foreign(Model):
    """A network that others wrote: built, tried on two blank images, and given another head if that is asked for."""

    source: str = Field(description="which network")
    options: dict[str, Any] = Field({}, description="its further arguments, by name")
    layer: str | None = Field(
        None, coerce_numbers_to_str=True, description="name of the classifier; by default the last linear layer"
    )

    def build(self, shape: Shape, classes: int) -> nn.Module:
        """Build the network, and make sure that it fits the data."""
        model = self.make(shape, classes)
        if self.layer is not None:
            model.representation_layer = self.layer  # type: ignore[assignment]  # modules take any attribute
        self._try(model, shape, classes)
        if self.projection is not None or self.head != "linear":
            self._change_head(model, classes)
        return model

    def make(self, shape: Shape, classes: int) -> nn.Module:
        """Return the network as others wrote it."""
        raise NotImplementedError

    def _try(self, model: nn.Module, shape: Shape, classes: int) -> None:
        """Run two blank images through it, which also gives lazy layers their shapes."""
        model.eval()
        with torch.no_grad(), capture_representations(model) as seen:
            try:
                logits = model(torch.zeros(2, *shape))
            except Exception as error:  # whatever a user's module raises
                raise UserError(f"'{self.source}' fails on images of shape {shape}: {error}") from error
        if not isinstance(logits, Tensor) or logits.shape != (2, classes):
            got = f"shape {tuple(logits.shape)}" if isinstance(logits, Tensor) else type(logits).__name__
            raise UserError(f"'{self.source}' gives {got} for 2 images, not logits of shape (2, {classes})")
        if not hasattr(seen, "z"):
            raise UserError(f"'{self.source}' does not use its classifier: name another by model.layer=NAME")
        model.train()

    def _change_head(self, model: nn.Module, classes: int) -> None:
        """Replace the classifier by the head that the options ask for."""
        old = find_classifier(model)
        name = next(name for name, module in model.named_modules() if module is old)
        if not isinstance(old, nn.Linear) or not name:
            raise UserError(f"another head replaces a linear layer inside the network, not {old}")
        parent, _, leaf = name.rpartition(".")
        layers = self.head_layers(old.in_features, classes)
        setattr(model.get_submodule(parent), leaf, nn.Sequential(OrderedDict(layers)))
        model.representation_layer = f"{name}.classifier"  # type: ignore[assignment]  # modules take any attribute


class Custom(Foreign):
    """Your own network: model=package.module:build, a function or class that returns an nn.Module.

    It is called with whichever of `classes` (or `num_classes`), `channels` (or `in_channels`) and `shape` (channels,
    height and width) it has parameters for, and with the options. The representation is the input of the last linear
    layer that the module registers, or of the named layer.
    """

    source: str = Field(description="package.module:name of the function or class that builds the network")

    @field_validator("source")
    @classmethod
    def _open(cls, source: str, info: ValidationInfo) -> str:
        """Import it now, while its origin is known: code that only a file names is not trusted."""
        if info.context is not None and not info.context.closed:
            import_named(source, info.context)
        return source

    def make(self, shape: Shape, classes: int) -> nn.Module:
        """Call the function or class."""
        known = {
            "classes": classes,
            "num_classes": classes,
            "channels": shape[0],
            "in_channels": shape[0],
            "shape": shape,
        }
        make = import_named(self.source)
        if isinstance(make, nn.Module) or not callable(make):
            raise UserError(f"'{self.source}' is {type(make).__name__}, not a function or class that builds a network")
        accepted = inspect.signature(make).parameters
        try:
            model = make(**{name: value for name, value in known.items() if name in accepted} | self.options)
        except TypeError as error:
            raise UserError(
                f"'{self.source}' cannot be called: {error}; model.options.NAME=VALUE adds arguments"
            ) from error
        if not isinstance(model, nn.Module):
            raise UserError(f"'{self.source}' returned {type(model).__name__}, not an nn.Module")
        return model
