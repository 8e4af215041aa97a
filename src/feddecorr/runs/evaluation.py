"""A model on the test images: accuracy, loss, and every measure of its representations."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace

import torch
from torch.nn.functional import cross_entropy

from feddecorr.collapse.diagnosis import Diagnosis, Subject
from feddecorr.collapse.gathered import Batch, gather
from feddecorr.collapse.weights import classifier_weight
from feddecorr.data.dataset import Images
from feddecorr.errors import RunError
from feddecorr.federation import Federation, Task
from feddecorr.messages import Broadcast, RoundInfo, Server, Update
from feddecorr.representation import capture_representations, find_classifier
from feddecorr.rounds import Round
from feddecorr.states import load_into
from feddecorr.threads import threads


class Evaluator:
    """Evaluates models, global or local, with one network; draws no random number."""

    def __init__(self, task: Task, test: Images) -> None:
        self.task = task
        self.test = test
        self.model = task.build_model().eval()

    @torch.no_grad()
    def __call__(self, state: Server | Update) -> Diagnosis:
        """Go once over the test images; return what a run records, since the rest of many rounds fills memory."""
        load_into(self.model, {**state.weights, **state.buffers})
        losses: list[float] = []
        subject = Subject(classifier=classifier_weight(find_classifier(self.model)))
        with threads(self.task.experiment.training.threads):
            found = Diagnosis.of("model", gather(self._batches(losses)), subject=subject)
        return Diagnosis.from_dict({**found.recorded(), "loss": math.fsum(losses) / found.samples})

    def _batches(self, losses: list[float]) -> Iterator[Batch]:
        with capture_representations(self.model) as seen:
            for x, y in self.task.batches(self.test):
                logits = self.model(x)
                losses.append(float(cross_entropy(logits, y, reduction="sum")))
                if not math.isfinite(losses[-1]):
                    raise RunError(f"the loss on the test images became {losses[-1]}; lower training.lr")
                yield Batch(seen.z, y, logits.argmax(1))


class Evaluations:
    """What is found out in each round, where it is due; nothing, where the server has no test images."""

    def __init__(self, federation: Federation) -> None:
        self.local: dict[int, Diagnosis] = {}
        self._experiment = federation.experiment
        self._evaluate = None if federation.test is None else Evaluator(federation.task, federation.test)

    def watch(self, updates: Iterable[Update], broadcast: Broadcast, info: RoundInfo) -> Iterator[Update]:  # noqa: ARG002 - only the round matters
        """Evaluate the clients' models on their way to the server, in this process: no engine knows of it."""
        self.local = {}
        evaluate = self._due(info.round) if self._experiment.evaluation.clients else None
        for update in updates:
            if evaluate:
                self.local[update.client] = replace(evaluate(update), client=update.client)
            yield update

    def after(self, now: Round) -> Diagnosis | None:
        """Evaluate the global model after a round."""
        evaluate = self._due(now.number)
        return evaluate(now.server) if evaluate else None

    def _due(self, number: int) -> Evaluator | None:
        due = number % self._experiment.evaluation.every == 0 or number == self._experiment.rounds
        return self._evaluate if due else None
