"""A model on the test images: accuracy, loss, and every measure of its representations."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch
from torch.nn.functional import cross_entropy

from feddecorr.collapse.diagnosis import Diagnosis, Subject
from feddecorr.collapse.gathered import Batch, gather
from feddecorr.collapse.weights import classifier_weight
from feddecorr.engines.table import RunClients
from feddecorr.errors import RunError
from feddecorr.federation import Federation
from feddecorr.messages import Broadcast, Server, Update
from feddecorr.representation import capture_representations, find_classifier
from feddecorr.threads import threads


class Evaluator:
    """Evaluates models, global or local, with one network; draws no random number."""

    def __init__(self, federation: Federation) -> None:
        self.federation = federation
        self.model = federation.build_model().eval()

    @torch.no_grad()
    def __call__(self, state: Server | Update) -> Diagnosis:
        """Go once over the test images; return what a run records, since the rest of many rounds fills memory."""
        self.model.load_state_dict({**state.weights, **state.buffers}, strict=False)
        losses: list[float] = []
        subject = Subject(classifier=classifier_weight(find_classifier(self.model)))
        with threads(self.federation.experiment.training.threads):
            found = Diagnosis.of("model", gather(self._batches(losses)), subject=subject)
        return Diagnosis.from_dict({**found.recorded(), "loss": math.fsum(losses) / found.samples})

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
        self.found: dict[int, Diagnosis] = {}

    def watch(self, run_clients: RunClients) -> RunClients:
        """Return the same, with every update of a round evaluated as it passes."""
        evaluation = self.evaluate.federation.experiment.evaluation

        def watched(broadcast: Broadcast, clients: Sequence[int]) -> Iterator[Update]:
            self.found = {}
            wanted = evaluation.clients and self.is_due(broadcast.round)
            for update in run_clients(broadcast, clients):
                if wanted:
                    self.found[update.client] = replace(self.evaluate(update), client=update.client)
                yield update

        return watched

    def is_due(self, number: int) -> bool:
        """Tell whether models are evaluated in that round."""
        experiment = self.evaluate.federation.experiment
        return number % experiment.evaluation.every == 0 or number == experiment.rounds
