"""The task: what every participant knows."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch
from pydantic import PositiveFloat, PositiveInt
from torch import Tensor, nn

from feddecorr.collapse.representation import capture_representations, find_classifier
from feddecorr.config.experiment import Experiment
from feddecorr.config.training import Evaluation
from feddecorr.core.randomness import seeded
from feddecorr.core.registry import Config
from feddecorr.core.trust import Trust
from feddecorr.data.dataset import Dataset, Images, Standardize
from feddecorr.errors import UserError
from feddecorr.models.partial import copy_network, freeze
from feddecorr.training.batched.grouping import Together, choose
from feddecorr.training.placement import prepare


@dataclass(frozen=True)
class Task:
    """What everyone knows: the experiment, what images look like, and the constants that standardize them.

    Of the run options, clients need the device and the evaluation.
    """

    experiment: Experiment
    shape: tuple[int, int, int]
    classes: tuple[str, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    device: str = "cpu"
    evaluation: Evaluation = field(default_factory=Evaluation)
    network: nn.Module | None = field(default=None, repr=False, compare=False)
    """The network as it was built, which is never run: `build_model` copies it, in the process that built it."""

    @classmethod
    def of(
        cls, experiment: Experiment, dataset: Dataset, device: str = "cpu", evaluation: Evaluation | None = None
    ) -> Task:
        """Return the task of an experiment on its data."""
        known = (dataset.shape, dataset.classes, dataset.mean, dataset.std)
        return cls(experiment, *known, device, evaluation or Evaluation())

    def __post_init__(self) -> None:
        """Refuse what cannot be learned; a single client may well hold a single class."""
        if len(self.classes) < 2:
            raise UserError(f"a classifier needs two classes: the only one is '{''.join(self.classes)}'")

    @cached_property
    def normalize(self) -> Standardize:
        """What turns pixels into the network's input."""
        return Standardize(self.shape, *self.constants)

    @property
    def constants(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Mean and standard deviation by which pixels are standardized: those of the data, unless the model has some.

        Such a model does that itself, with pixels from 0 to 1.
        """
        own = self.experiment.model.scales_pixels()
        return ((0.0,) * self.shape[0], (255.0,) * self.shape[0]) if own else (self.mean, self.std)

    @cached_property
    def together(self) -> Together:
        """How many clients train at once; an experiment that asks for the impossible is refused."""
        return self._choose()

    def _choose(self, *, auto: bool = False) -> Together:
        return choose(self.experiment, self.shape, self.build_model, evaluation=self.evaluation, auto=auto)

    def choose_batching(self) -> tuple[Task, str]:
        """Return the task with as many clients at once as pay off, and the reason where none do."""
        found = self._choose(auto=True)
        update = {"clients_per_batch": found.clients, "pre_aggregate": found.merge and found.clients > 1}
        training = self.experiment.training.model_copy(update=update)
        return replace(self, experiment=self.experiment.model_copy(update={"training": training})), found.because

    @cached_property
    def width(self) -> int:
        """The number of features in a representation."""
        model = self.build_model().eval()
        with torch.no_grad(), capture_representations(model) as seen:
            model(self.normalize(torch.zeros(1, *self.shape[1:], self.shape[0]).to(self.device)))
        return seen.z.shape[1]

    @cached_property
    def classifier(self) -> str:
        """The name of the classifier's weights; empty where they are frozen."""
        model = self.build_model()
        weight = getattr(find_classifier(model), "weight", None)
        return next((name for name, each in (*model.named_parameters(), *model.named_buffers()) if each is weight), "")

    def groups(self, clients: Sequence[int]) -> list[Sequence[int]]:
        """Return the clients of a round in groups that train at once: the same with every engine."""
        size = self.together.clients
        return [clients[start : start + size] for start in range(0, len(clients), size)]

    def __getstate__(self) -> dict[str, Any]:
        """Pickle all but the network, whose hooks cannot be: another process builds its own."""
        return vars(self) | {"network": None}

    def built(self) -> Task:
        """Return the task with its network, which is built now."""
        return replace(self, network=self.build_model())

    def build_model(self) -> nn.Module:
        """Build a network, ready to run, always with the same first weights.

        If it is trained in part, these are those of the file: what is frozen is nothing that the server sends.
        """
        if self.network is not None:
            with suppress(Exception):  # of a network that cannot be copied
                return copy_network(self.network)
        model, training = self.experiment.model, self.experiment.training
        with seeded(self.experiment.seed, "model"):
            network = model.build(self.shape, len(self.classes))
            if not training.is_partial:
                return prepare(network, training, self.device)
            model.load_initial_weights(network)
            trained = training.adapter.adapt(network, training.trainable)
        network = prepare(network, training, self.device)
        freeze(network, trained)
        return network

    def inputs(self, images: Images) -> tuple[Tensor, Tensor]:
        """Return the images as the network takes them, and their labels."""
        return self.normalize(images.pixels.to(self.device)), images.labels.to(self.device)

    def to_dict(self) -> dict[str, Any]:
        """Return the task, ready for JSON; `from_dict` of the class takes it back."""
        return {
            "experiment": self.experiment.to_dict(),
            "shape": list(self.shape),
            "classes": list(self.classes),
            "mean": list(self.mean),
            "std": list(self.std),
            "device": self.device,
            "evaluation": self.evaluation.to_dict(),
        }

    @classmethod
    def from_dict(cls, document: dict[str, Any], *, trust: bool = False) -> Task:
        """Return the task that `to_dict` wrote; with `trust`, it may name code from outside this package."""
        stated = _Stated.parse(document)
        return cls(
            Experiment.parse(stated.experiment, Trust(files=trust)),
            stated.shape,
            stated.classes,
            stated.mean,
            stated.std,
            stated.device,
            stated.evaluation,
        )


class _Stated(Config):
    """A task as JSON says it."""

    experiment: dict[str, Any]
    shape: tuple[PositiveInt, PositiveInt, PositiveInt]
    classes: tuple[str, ...]
    mean: tuple[float, ...]
    std: tuple[PositiveFloat, ...]
    device: str
    evaluation: Evaluation
