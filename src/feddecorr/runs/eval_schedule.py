"""When models are evaluated: which rounds are due, and what is found out in them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

import torch

from feddecorr.collapse.averaging import Averaging
from feddecorr.collapse.diagnosis import Diagnosis
from feddecorr.config.experiment import Experiment
from feddecorr.config.training import Evaluation
from feddecorr.core.checks import printable
from feddecorr.core.evidence import Evidence
from feddecorr.core.messages import Broadcast, RoundInfo, Server, Update
from feddecorr.core.states import STATISTICS, Mean
from feddecorr.errors import RunError, UserError
from feddecorr.loss.module import DyingWatch
from feddecorr.objective.regularizers import FedDecorr
from feddecorr.runs.evaluation import Evaluator
from feddecorr.server.federation import Evaluating, Federation
from feddecorr.server.rounds import Round
from feddecorr.settings.options import RunOptions

FORWARD = 3
"""So many forward passes cost as much as a training step on the same images."""

SHARE = 10
"""The training costs at least so many times as much as evaluations under `auto`."""

ADVICE = "regularizers.feddecorr.dying=counted works against that."


@dataclass(frozen=True)
class Evaluated:
    """What was found out in a round: of the global model, of the clients' and of what averaging did to them.

    `notes` say of which client's model nothing was, and why.
    """

    model: Diagnosis | None = None
    local: dict[int, Diagnosis] = field(default_factory=dict)
    averaging: Averaging | None = None
    notes: dict[int, str] = field(default_factory=dict)


class Evaluations:
    """What is found out in each round, where it is due.

    A server that has no test images knows what its clients find out on their own, if they do, and else nothing.
    """

    def __init__(self, federation: Federation, options: RunOptions, elsewhere: Evaluating | None = None) -> None:
        self._local: dict[int, Diagnosis] = {}
        self._notes: dict[int, str] = {}
        self._mean = Mean()
        self._dying: DyingWatch | None = None
        self._classes = len(federation.task.classes)
        self._experiment = experiment = federation.experiment
        self._options = options
        self._elsewhere = elsewhere
        self._evaluate = None
        train = int(federation.roster.sizes.sum())
        test = train if federation.test is None else len(federation.test)
        self._every = rhythm(experiment, options.evaluation, train, test)
        if federation.test is not None:
            self._evaluate = Evaluator(
                federation.task, federation.test, options.engine.parallel_jobs(experiment.training.threads)
            )
            if _ignores_dying(experiment):
                evaluate = self._evaluate
                self._dying = DyingWatch(ADVICE, lambda: _dead(evaluate(federation.start())))

    def watch(self, updates: Iterable[Update], broadcast: Broadcast, info: RoundInfo) -> Iterator[Update]:  # noqa: ARG002 - only the round matters
        """Evaluate the clients' models on their way to the server: no engine knows of it."""
        self._local, self._notes, self._mean = {}, {}, STATISTICS[self._experiment.batchnorm]()
        for update in updates:
            if looks_at_clients(self._options, info.round) and (found := self._look_at(update)):
                self._local[update.client] = replace(found, client=update.client)
                self._mean.add({**update.weights, **update.buffers}, update.examples)
            yield update

    def after(self, now: Round) -> Evaluated:
        """Evaluate the global model after a round, and tell all that was found out in it; warn if its features die."""
        local = dict(sorted(self._local.items()))
        if self._evaluate is None and self._elsewhere is not None and self._is_due(now.number):
            return Evaluated(self._elsewhere.evaluate(now.number, now.server), local, notes=self._notes)
        try:
            model = self._look(now.number, now.server)
        except RunError as error:
            raise RunError(f"round {now.number}: {now.outlier or error}") from error
        if model and self._dying:
            self._dying.see(_dead(model))
        return Evaluated(model, local, self._averaging(now, model), self._notes)

    def _averaging(self, now: Round, model: Diagnosis | None) -> Averaging | None:
        """Compare the clients' models with their average, which is evaluated unless it is the global model."""
        if model is None or not self._local:
            return None
        mean, server = self._mean.value, now.server
        averaged: Diagnosis | None = model
        if not all(torch.equal(mean[name], tensor) for name, tensor in {**server.weights, **server.buffers}.items()):
            parts = [{name: mean[name] for name in part} for part in (server.weights, server.buffers)]
            averaged = self._look(now.number, Server(*parts))
        return None if averaged is None else Averaging.of(list(self._local.values()), averaged, self._classes)

    def _look_at(self, update: Update) -> Diagnosis | None:
        """Evaluate a client's model, or take what it found out itself; what cannot be told of it costs no more."""
        try:
            if self._evaluate is None and update.evidence:
                return Evidence.from_state(update.evidence).diagnosis()
            return self._look(update.round, update)
        except (RunError, UserError) as error:
            self._notes[update.client] = printable(f"its model was not evaluated: {error}")
            return None

    def _look(self, number: int, state: Server | Update) -> Diagnosis | None:
        if self._evaluate is None or not self._is_due(number):
            return None
        last = number == self._options.rounds
        return self._evaluate(state, classes=last or self._options.evaluation.label_measures == "always")

    def _is_due(self, number: int) -> bool:
        return is_due(self._options, number, self._every)


def _ignores_dying(experiment: Experiment) -> bool:
    terms = experiment.regularizers.values()
    return any(isinstance(term, FedDecorr) and term.beta > 0 and term.dying == "ignored" for term in terms)


def _dead(found: Diagnosis) -> float:
    return found.dead_features / found.dimensions


def is_due(options: RunOptions, number: int, every: int) -> bool:
    """Tell whether a round is evaluated, in that rhythm or as one of the last."""
    return number % every == 0 or options.rounds - options.evaluation.final < number <= options.rounds


def looks_at_clients(options: RunOptions, number: int) -> bool:
    """Tell whether the clients' models are looked at when that round is evaluated."""
    clients = options.evaluation.clients
    return number == options.rounds if clients == "last" else clients


def rhythm(experiment: Experiment, evaluation: Evaluation, train: int, test: int) -> int:
    """Return the number of rounds from one evaluation to the next, of so many images to train on and to test with.

    Under `auto` it is the least for which the evaluations' forward passes cost at most a tenth of the training.
    Images are counted, and no clock is read: it is the same on every machine.
    """
    every = evaluation.every
    evaluated = test * (1 + experiment.cohort * (evaluation.clients is True))
    return math.ceil(SHARE * evaluated / (FORWARD * trained_images(experiment, train))) if every == "auto" else every


def trained_images(experiment: Experiment, train: int) -> float:
    """Return how many images the clients of a round see, on the average, of all that there are to train on."""
    training, share = experiment.training, train / experiment.clients
    seen = share * training.epochs if training.steps is None else training.steps * min(training.batch, share)
    return experiment.cohort * seen
