"""A model on the test images: accuracy, loss, and every measure of its representations."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch.nn.functional import cross_entropy

from feddecorr.collapse.answer import MEANINGS
from feddecorr.collapse.diagnosis import Diagnosis, Subject
from feddecorr.collapse.gathered import Batch, gather
from feddecorr.collapse.weights import classifier_weight
from feddecorr.engines.table import RunClients
from feddecorr.errors import RunError
from feddecorr.federation import Federation
from feddecorr.messages import Broadcast, Server, Update
from feddecorr.representation import capture_representations, find_classifier
from feddecorr.threads import threads

OWN = ("accuracy", "effective_rank", "significant_singular_values")
"""Measures that have a place of their own."""


@dataclass(frozen=True)
class Evaluated:
    """What was found out; `accuracy` is a fraction, `singular_values` are the covariance's, largest first.

    `measures` are all others of a diagnosis that are one number; docs/diagnosis.md defines them.
    """

    accuracy: float
    loss: float
    effective_rank: float
    significant_singular_values: int
    singular_values: list[float]
    measures: dict[str, float]


class Evaluator:
    """Evaluates models, global or local, with one network; draws no random number."""

    def __init__(self, federation: Federation) -> None:
        self.federation = federation
        self.model = federation.build_model().eval()

    @torch.no_grad()
    def __call__(self, state: Server | Update) -> Evaluated:
        """Go once over the test images."""
        self.model.load_state_dict({**state.weights, **state.buffers}, strict=False)
        losses: list[float] = []
        subject = Subject(classifier=classifier_weight(find_classifier(self.model)))
        with threads(self.federation.experiment.training.threads):
            found = Diagnosis.of("", gather(self._batches(losses)), subject=subject).to_dict()
        return Evaluated(
            accuracy=found["accuracy"],
            loss=math.fsum(losses) / found["samples"],
            effective_rank=found["effective_rank"],
            significant_singular_values=found["significant_singular_values"],
            singular_values=found["singular_values"],
            measures={name: found[name] for name in MEANINGS if name not in OWN and found[name] is not None},
        )

    def _batches(self, losses: list[float]) -> Iterator[Batch]:
        experiment, dataset = self.federation.experiment, self.federation.dataset
        batches = zip(
            dataset.test.pixels.split(experiment.evaluation.batch),
            dataset.test.labels.split(experiment.evaluation.batch),
            strict=True,
        )
        with capture_representations(self.model) as seen:
            for pixels, labels in batches:
                y = labels.to(experiment.training.device)
                logits = self.model(dataset.normalize(pixels.to(y.device)))
                losses.append(float(cross_entropy(logits, y, reduction="sum")))
                if not math.isfinite(losses[-1]):
                    raise RunError(f"the loss on the test images became {losses[-1]}; lower training.lr")
                yield Batch(seen.z, y, logits.argmax(1))


class LocalModels:
    """Evaluates the clients' models on their way to the server, in this process: no engine knows of it."""

    def __init__(self, evaluate: Evaluator) -> None:
        self.evaluate = evaluate
        self.found: dict[int, Evaluated] = {}

    def watch(self, run_clients: RunClients) -> RunClients:
        """Return the same, with every update of a round evaluated as it passes."""
        evaluation = self.evaluate.federation.experiment.evaluation

        def watched(broadcast: Broadcast, clients: Sequence[int]) -> Iterator[Update]:
            self.found = {}
            wanted = evaluation.clients and self.is_due(broadcast.round)
            for update in run_clients(broadcast, clients):
                if wanted:
                    self.found[update.client] = self.evaluate(update)
                yield update

        return watched

    def is_due(self, number: int) -> bool:
        """Tell whether models are evaluated in that round."""
        experiment = self.evaluate.federation.experiment
        return number % experiment.evaluation.every == 0 or number == experiment.rounds
