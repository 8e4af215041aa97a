"""When models are evaluated: which rounds are due, and what is found out in them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace

from feddecorr.collapse.diagnosis import Diagnosis
from feddecorr.federation import Federation
from feddecorr.messages import Broadcast, RoundInfo, Server, Update
from feddecorr.rounds import Round
from feddecorr.runs.evaluation import Evaluator
from feddecorr.settings.experiment import Experiment

FORWARD = 3
"""So many forward passes cost as much as a training step on the same images."""

SHARE = 10
"""The training costs at least so many times as much as evaluations under `auto`."""


class Evaluations:
    """What is found out in each round, where it is due; nothing, where the server has no test images."""

    def __init__(self, federation: Federation) -> None:
        self.local: dict[int, Diagnosis] = {}
        self._experiment = experiment = federation.experiment
        self._evaluate = None
        if federation.test is not None:
            self._every = rhythm(experiment, int(federation.roster.sizes.sum()), len(federation.test))
            self._evaluate = Evaluator(
                federation.task, federation.test, experiment.engine.hands(experiment.training.threads)
            )

    def watch(self, updates: Iterable[Update], broadcast: Broadcast, info: RoundInfo) -> Iterator[Update]:  # noqa: ARG002 - only the round matters
        """Evaluate the clients' models on their way to the server: no engine knows of it."""
        self.local = {}
        for update in updates:
            if self._experiment.evaluation.clients and (found := self._look(info.round, update)):
                self.local[update.client] = replace(found, client=update.client)
            yield update

    def after(self, now: Round) -> Diagnosis | None:
        """Evaluate the global model after a round."""
        return self._look(now.number, now.server)

    def _look(self, number: int, state: Server | Update) -> Diagnosis | None:
        last = number == self._experiment.rounds
        if self._evaluate is None or (number % self._every and not last):
            return None
        return self._evaluate(state, classes=last or self._experiment.evaluation.classes == "always")


def rhythm(experiment: Experiment, train: int, test: int) -> int:
    """Return the number of rounds from one evaluation to the next, of so many images to train on and to test with.

    Under `auto` it is the least for which the evaluations' forward passes cost at most a tenth of the training.
    Images are counted, and no clock is read: it is the same on every machine.
    """
    every = experiment.evaluation.every
    evaluated = test * evaluated_models(experiment)
    return math.ceil(SHARE * evaluated / (FORWARD * trained_images(experiment, train))) if every == "auto" else every


def trained_images(experiment: Experiment, train: int) -> float:
    """Return how many images the clients of a round see, on the average, of all that there are to train on."""
    training, share = experiment.training, train / experiment.clients
    seen = share * training.epochs if training.steps is None else training.steps * min(training.batch, share)
    return experiment.cohort * seen


def evaluated_models(experiment: Experiment) -> int:
    """Return how many models an evaluation looks at: the global one and, by wish, each client's."""
    return 1 + experiment.cohort * experiment.evaluation.clients
