"""The representation is what the classifier takes in; it is caught during the ordinary forward pass."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from feddecorr.errors import UserError
from feddecorr.kinds import nearest


class Seen:
    """The representations of the latest forward pass."""

    z: Tensor


def find_classifier(model: nn.Module, layer: str | None = None) -> nn.Module:
    """Return the layer of that name or, without a name, the last linear layer that the model registers.

    A model may name the layer itself, by an attribute `representation_layer`.
    """
    modules = dict(model.named_modules())
    layer = layer if layer is not None else getattr(model, "representation_layer", None)
    if layer is not None:
        if layer not in modules:
            raise UserError(f"the model has no layer '{layer}': {nearest(layer, modules)}")
        return modules[layer]
    linear = [module for module in modules.values() if isinstance(module, nn.Linear)]
    if not linear:
        raise UserError("the model has no linear layer: name the layer whose input is the representation")
    return linear[-1]


@contextmanager
def capture_representations(model: nn.Module, layer: str | None = None) -> Iterator[Seen]:
    """Catch the input of the classifier (or of the named layer) in every forward pass inside the block."""
    seen = Seen()

    def catch(_module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        z = inputs[0].flatten(1)
        seen.z = z.to(torch.promote_types(z.dtype, torch.float32))  # whatever autocast made of it

    handle = find_classifier(model, layer).register_forward_pre_hook(catch)
    try:
        yield seen
    finally:
        handle.remove()
