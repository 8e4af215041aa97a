"""Which models of a run are looked at, and on which images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import nn

from feddecorr.collapse.diagnosis import Diagnosis
from feddecorr.core.states import State, load_into
from feddecorr.core.threads import parallel_jobs
from feddecorr.models.model import use_batch_statistics
from feddecorr.runs.evaluation import Evaluator
from feddecorr.server.federation import Simulation

REMARKS = {"model": "", "batch": ", statistics of each batch"}
"""What the name of a model has to add, by whose statistics BatchNorm normalizes."""


@dataclass(frozen=True)
class Wanted:
    """Which models of a run, on which images: `round` None is the last, `clients` None are all of that round.

    BatchNorm's `statistics` are the `model`'s or those of each `batch` of the images. With `averaging`, the local
    models are compared with their average, with `layers` also layer by layer.
    """

    round: int | None = None
    local: bool = False
    clients: Sequence[int] | None = None
    on: str = "test"
    statistics: str = "model"
    averaging: bool = False
    layers: bool = False

    @property
    def blames(self) -> bool:
        """Whether clients are ranked: then all of them are asked for."""
        return self.local and self.clients is None

    @property
    def whole(self) -> bool:
        """Whether it takes all clients of the round to tell."""
        return self.averaging or self.blames


class DiagnosisInputs:
    """Looks at models of a run, on the images that are wanted."""

    def __init__(self, simulation: Simulation, wanted: Wanted) -> None:
        self._task, self._statistics = simulation.task, wanted.statistics
        images = simulation.dataset.test if wanted.on == "test" else simulation.dataset.train
        self._count = len(images)
        self._evaluator = Evaluator(self._task, images, parallel_jobs(self._task.experiment.training.threads))

    def build(self, state: State) -> nn.Module:
        """Return the network with that state."""
        model = self._task.build_model()
        load_into(model, state)
        if self._statistics == "batch":
            use_batch_statistics(model, self._count, self._task.evaluation.batch)
        return model

    def diagnose(
        self,
        model: nn.Module,
        name: str,
        *,
        compared_with: tuple[nn.Module, Diagnosis] | None = None,
        weights: bool = True,
    ) -> Diagnosis:
        """Return everything about a model, with its layers' weights or without."""
        return self._evaluator.diagnose(model, name=name, compared_with=compared_with, weights=weights)

    def briefly(self, state: State) -> Diagnosis:
        """Return what follows from representations and decisions alone."""
        return self.diagnose(self.build(state), "model", weights=False).lean()

    def layer_ranks(self, model: nn.Module) -> dict[str, float]:
        """Return how many dimensions there are in what goes into each layer."""
        return self._evaluator.layer_ranks(model)
