"""What every client of a run has in common: the experiment, the images, and who holds which."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import nn

from feddecorr.data import Dataset
from feddecorr.messages import Server
from feddecorr.models.placement import prepare
from feddecorr.partition import Parts
from feddecorr.randomness import seeded

if TYPE_CHECKING:
    from feddecorr.settings.experiment import Experiment


@dataclass(frozen=True)
class Federation:
    """An experiment with its data loaded and dealt out."""

    experiment: Experiment
    dataset: Dataset
    parts: Parts

    @classmethod
    def of(cls, experiment: Experiment) -> Federation:
        """Load the data and split it."""
        dataset = experiment.data.load()
        labels = dataset.train.labels.numpy()
        parts = experiment.partition.split(labels, clients=experiment.clients, seed=experiment.seed)
        return cls(experiment, dataset, parts)

    def build_model(self) -> nn.Module:
        """Return the network, ready to run, always with the same first weights."""
        with seeded(self.experiment.seed, "model"):
            model = self.experiment.model.build(self.dataset.shape, len(self.dataset.classes))
        return prepare(model, self.experiment.training)

    def start(self) -> Server:
        """Return the server before the first round."""
        model = self.build_model()
        weights = {name: parameter.detach().cpu() for name, parameter in model.named_parameters()}
        buffers = {name: buffer.cpu() for name, buffer in model.named_buffers()}
        return self.experiment.method.start(Server(weights, buffers), [len(part) for part in self.parts])
