"""Heads: the layers from a network's vectors to logits.

Each head ends in a linear layer, the classifier, whose input is the representation. Heads that normalize do so inside
the classifier, so ranks, spectra and regularizers see the same thing with every head.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import layer_norm, linear, normalize

from feddecorr.errors import UserError

Head = Literal["linear", "normalized", "layer_norm", "etf", "prototypes"]

TEMPERATURE = 0.1
TEMPERED: tuple[Head, ...] = ("normalized", "etf", "prototypes")
"""The heads whose logits are divided by a temperature."""

MIN_NORM = 1e-6
"""Vectors shorter than this are not stretched to length 1: it bounds the gradient."""


class NormalizedLinear(nn.Linear):
    """Logits W·z/‖z‖ divided by a fixed temperature (feature normalization: Zhang et al., TMLR 2024)."""

    def __init__(self, width: int, classes: int, temperature: float) -> None:
        super().__init__(width, classes, bias=False)
        self.temperature = temperature

    def forward(self, z: Tensor) -> Tensor:
        """Return the logits."""
        return linear(_unit(z), self.weight) / self.temperature

    def extra_repr(self) -> str:
        """Return the arguments that `print` shows."""
        return f"{super().extra_repr()}, temperature={self.temperature}"


class LayerNormLinear(nn.Linear):
    """A linear layer after layer normalization without scale and shift (Zhang et al., TMLR 2024)."""

    def forward(self, z: Tensor) -> Tensor:
        """Return the logits."""
        return linear(layer_norm(_wide(z), z.shape[-1:]), self.weight, self.bias)


class SimplexLinear(nn.Linear):
    """Logits s·V·z/‖z‖, V a fixed simplex with a vertex for each class (Li et al., FedETF, ICCV 2023).

    V is a buffer: nothing trains it. The scale s is learned and begins at 1/temperature.
    """

    def __init__(self, width: int, classes: int, temperature: float) -> None:
        super().__init__(width, classes, bias=False)
        del self.weight
        self.register_buffer("weight", simplex(width, classes))
        self.scale = nn.Parameter(torch.tensor([1 / temperature]))

    def forward(self, z: Tensor) -> Tensor:
        """Return the logits."""
        return linear(_unit(z), self.weight) * self.scale


class PrototypeLinear(nn.Linear):
    """Logits s·W·z/‖z‖, W a prototype of length 1 for each class (Dai et al., FedNH, AAAI 2023).

    W begins as a simplex and takes no gradient: it is sent like weights, and a server may move it. The scale s is
    learned and begins at 1/temperature.
    """

    def __init__(self, width: int, classes: int, temperature: float) -> None:
        super().__init__(width, classes, bias=False)
        self.weight = nn.Parameter(simplex(width, classes), requires_grad=False)
        self.scale = nn.Parameter(torch.tensor([1 / temperature]))

    def forward(self, z: Tensor) -> Tensor:
        """Return the logits."""
        return linear(_unit(z), self.weight) * self.scale


def simplex(width: int, classes: int) -> Tensor:
    """Return a simplex equiangular tight frame of shape (classes, width), turned at random.

    Its rows have length 1, sum to zero, and any two of them have the cosine −1/(classes − 1): no vectors can be
    farther apart.
    """
    if not 2 <= classes <= width + 1:
        raise UserError(
            f"{classes} classes have no simplex in {width} dimensions: it takes from 2 to {width + 1} classes; "
            "model.projection=WIDTH changes the dimensions"
        )
    corner = torch.cat([torch.ones(classes, 1), torch.eye(classes, classes - 1)], dim=1).double()
    flat = torch.linalg.qr(corner).Q[:, 1:]  # an orthonormal basis of the vectors that sum to zero
    turn = torch.linalg.qr(torch.randn(width, classes - 1).double()).Q
    vertices: Tensor = flat @ turn.T * (classes / (classes - 1)) ** 0.5
    return vertices.float()


CLASSIFIERS: dict[Head, Callable[[int, int, float], nn.Linear]] = {
    "linear": lambda width, classes, _: nn.Linear(width, classes),
    "normalized": NormalizedLinear,
    "layer_norm": lambda width, classes, _: LayerNormLinear(width, classes),
    "etf": SimplexLinear,
    "prototypes": PrototypeLinear,
}


def build_head(
    width: int, classes: int, *, head: Head, projection: int | None, temperature: float
) -> dict[str, nn.Module]:
    """Return the layers after vectors of that width, by name: a projection if there is one, and the classifier.

    The projection head is that of MOON (Li, He and Song, 2021): two linear layers with ReLU between. Without one,
    a simplex is preceded by a linear layer, as in FedETF: its vertices have negative coordinates, and features after
    ReLU have none.
    """
    layers: dict[str, nn.Module] = {}
    if projection is not None:
        layers["projection"] = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, projection))
    elif head == "etf":
        layers["projection"] = nn.Linear(width, width)
    layers["classifier"] = CLASSIFIERS[head](projection or width, classes, temperature)
    return layers


def _wide(z: Tensor) -> Tensor:
    """Return at least float32: norms lose too much in half precision."""
    return z.to(torch.promote_types(z.dtype, torch.float32))


def _unit(z: Tensor) -> Tensor:
    return normalize(_wide(z), dim=-1, eps=MIN_NORM)
