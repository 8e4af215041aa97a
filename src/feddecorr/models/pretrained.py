"""Published networks with their weights, for images of any data set: what all libraries of such have in common."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Self

import torch
from pydantic import Field, PositiveInt, model_validator
from torch import Tensor, nn
from torch.nn.functional import interpolate

from feddecorr.collapse.representation import find_classifier
from feddecorr.core.files import reading
from feddecorr.core.limits import brief
from feddecorr.core.states import State, copy_into
from feddecorr.errors import UserError
from feddecorr.models.custom import Foreign
from feddecorr.models.model import Shape
from feddecorr.models.weights import read_weights, weights_digest

WEIGHTS = ("model.safetensors", "pytorch_model.bin")
"""Files of weights in a repository of the Hugging Face Hub."""


@dataclass(frozen=True)
class Inputs:
    """What a network was trained with: channels, height and width (None: any), and pixels' mean and deviation, 0 to 1.

    Without those, pixels are standardized by the data's own constants.
    """

    channels: int
    size: tuple[int, int] | None
    constants: tuple[tuple[float, ...], tuple[float, ...]] | None


class Fitted(nn.Module):
    """A network behind what its images need: channels, size, standardization."""

    def __init__(self, network: nn.Module, inputs: Inputs) -> None:
        super().__init__()
        self.network = network
        self._inputs = inputs
        self.head = classifier_name(network)
        self.representation_layer = f"network.{self.head}"

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits; grey images are repeated, others resized with antialiasing."""
        if x.shape[1] != self._inputs.channels:
            x = x.expand(-1, self._inputs.channels, -1, -1)
        if self._inputs.size is not None and tuple(x.shape[-2:]) != self._inputs.size:
            x = interpolate(x, self._inputs.size, mode="bilinear", antialias=True)
        if self._inputs.constants is not None:
            mean, std = (x.new_tensor(constant).view(-1, 1, 1) for constant in self._inputs.constants)
            x = (x - mean) / std
        out = self.network(x)
        logits: Tensor = getattr(out, "logits", out)
        return logits


class Pretrained(Foreign):
    """A published network, with published weights or those of a file; its last layer is a new one for the task."""

    argument: ClassVar[str | None] = "source"

    pretrained: bool = Field(
        True, description="begin with the published weights, if model.weights names no file; false: at random"
    )
    size: PositiveInt | None = Field(
        None, description="height and width that images are resized to; by default what the network was trained with"
    )

    @model_validator(mode="after")
    def _check_pin(self) -> Self:
        if self.sha256 and self.weights is None and not self.pretrained:
            raise ValueError("model.sha256 is the digest of weights: name a file by model.weights")
        return self

    def find_weights(self) -> Path | None:
        """Return the file of weights: the one that is named, or that of the published ones."""
        return self.published() if self.weights is None and self.pretrained else self.weights

    @abstractmethod
    def published(self) -> Path:
        """Return the file of the published weights, or say how it is fetched."""

    @abstractmethod
    def inputs(self) -> Inputs:
        """Return what the network was trained with."""

    @abstractmethod
    def network(self, classes: int) -> nn.Module:
        """Return the network with random weights."""

    @abstractmethod
    def filled(self, network: nn.Module, weights: State) -> tuple[nn.Module, set[str]]:
        """Return such a network with these weights, in any form that the library knows, and the names that had none."""

    def scales_pixels(self) -> bool:
        """Return whether the network's constants are known."""
        return self.inputs().constants is not None

    def make(self, shape: Shape, classes: int) -> nn.Module:
        """Return the network behind what its images need."""
        inputs = self.inputs()
        if shape[0] not in (1, inputs.channels):
            raise UserError(f"'{self.source}' takes images of {inputs.channels} channels, not of {shape[0]}")
        if self.size is not None:
            inputs = Inputs(inputs.channels, (self.size, self.size), inputs.constants)
        return Fitted(self.network(classes), inputs)

    def load_initial_weights(self, network: nn.Module) -> None:
        """Load all weights but the last layer's, in any form that the library knows."""
        path = self.find_weights()
        if path is None:
            return
        weights = read_weights(path)
        if self.sha256 not in ("", found := weights_digest(weights)):
            raise UserError(f"{path} has changed: its weights have sha256 {found}, no longer {self.sha256}")
        assert isinstance(network, Fitted)  # noqa: S101 - it comes from `build`
        mine = network.network
        with torch.random.fork_rng(), reading(path):
            try:
                theirs, missing = self.filled(mine, weights)
            except (RuntimeError, ValueError, KeyError) as error:
                raise UserError(f"it does not fit '{self.source}': {brief(str(error))}") from error
            head = f"{network.head}."
            if lost := sorted(name for name in missing if not name.startswith(head)):
                raise UserError(f"it does not fit '{self.source}': it lacks {brief(', '.join(lost))}")
        given = {**dict(theirs.named_parameters()), **dict(theirs.named_buffers())}
        held = {**dict(mine.named_parameters()), **dict(mine.named_buffers())}
        names = [name for name in held if name in given and not name.startswith(head)]
        copy_into((held[name] for name in names), (given[name] for name in names))


def classifier_name(network: nn.Module) -> str:
    """Return the name of the layer whose input is the representation."""
    classifier = find_classifier(network)
    name: str = next(name for name, module in network.named_modules() if module is classifier)
    return name


def find_in_hub(repository: str, files: tuple[str, ...]) -> Path | None:
    """Return the first of these files that was fetched from the Hugging Face Hub before; no request is made."""
    try:
        from huggingface_hub import try_to_load_from_cache  # noqa: PLC0415 - comes with both libraries
    except ImportError:
        return None
    try:
        found = (try_to_load_from_cache(repository, name) for name in files)
        return next((Path(path) for path in found if isinstance(path, str)), None)
    except ValueError:  # of a name that no repository has
        return None


def not_fetched(what: str, repository: str) -> UserError:
    """Return the refusal of what is not on this machine."""
    return UserError(
        f"{what} is not on this machine, and runs fetch nothing: say 'hf download {repository}' where there is a "
        "network (HF_HOME is the folder to copy), or model.weights=FILE, or model.pretrained=false for random weights"
    )
