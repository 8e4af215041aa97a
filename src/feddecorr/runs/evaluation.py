"""Evaluation of models on images: accuracy, loss and all measures of representations, in the rounds that are due."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from operator import add
from queue import SimpleQueue
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from feddecorr.collapse.averaging import Averaging
from feddecorr.collapse.diagnosis import Diagnosis, Subject, layer_ranks, measure_custom
from feddecorr.collapse.measures import Principal, classifier_weight, measure_spread
from feddecorr.collapse.neural_collapse import DecisionMeasures
from feddecorr.collapse.representation import capture_representations, find_classifier
from feddecorr.collapse.statistics import Batch, ChunkStatistics, Statistics, add_up, chunks
from feddecorr.collapse.updates import LayerUpdates, RoundUpdates
from feddecorr.config.experiment import Experiment
from feddecorr.config.training import Evaluation
from feddecorr.core import devices
from feddecorr.core.checks import printable
from feddecorr.core.evidence import Evidence
from feddecorr.core.messages import Broadcast, RoundInfo, Server, Update
from feddecorr.core.randomness import threads
from feddecorr.core.states import STATISTICS, Mean, State, load_into
from feddecorr.data.dataset import Images
from feddecorr.errors import RunError, UserError
from feddecorr.loss.module import DyingWatch
from feddecorr.models.partial import AdapterMean, AdapterRanks
from feddecorr.objective.reference_models import Look, Reference
from feddecorr.objective.regularizers import FedDecorr
from feddecorr.server.federation import Evaluating, Federation
from feddecorr.server.rounds import Round
from feddecorr.settings.options import RunOptions
from feddecorr.training.task import Task

Kept = TypeVar("Kept")


class Score(NamedTuple):
    """How well one batch was classified: the sum of the cross-entropy, and the number of right decisions."""

    loss: float
    right: int


class _Seen(NamedTuple):
    """The results of one batch: the sum of the cross-entropy, decisions, and representations."""

    loss: Tensor
    decisions: Tensor
    z: Tensor
    reference: Tensor | None = None


def _to_host(batches: Sequence[_Seen]) -> Iterator[_Seen]:
    """Bring all batches to the host's memory, as one matrix: the host waits for the device once.

    Decisions and losses are exact in float32; narrower representations become float32.
    """
    wide = torch.promote_types(batches[0].z.dtype, torch.float32)
    sizes = [len(seen.z) for seen in batches]
    columns = [
        [
            seen.loss.expand(size, 1),
            seen.decisions.unsqueeze(1),
            seen.z,
            *([] if seen.reference is None else [seen.reference]),
        ]
        for seen, size in zip(batches, sizes, strict=True)
    ]
    matrix = torch.cat([torch.cat([part.to(wide) for part in parts], 1) for parts in columns]).cpu()
    for rows in matrix.split(sizes):
        loss, decisions, *representations = rows.split([part.shape[1] for part in columns[0]], 1)
        yield _Seen(loss[0, 0], decisions.squeeze(1).long(), *(each.contiguous() for each in representations))


class Evaluator:
    """Evaluates models, global or local, on some images; draws no random number.

    The images are cut into the experiment's batches of evaluation, which threads evaluate, each by itself. Their
    results are merged in the order of the batches: the number of threads changes no bit.
    """

    def __init__(self, task: Task, images: Images, parallel_jobs: int = 1) -> None:
        self._task = task
        self._batches = images.near(task.device).split(task.evaluation.batch)
        self._labels = images.labels.split(task.evaluation.batch)
        self._parallel_jobs = min(parallel_jobs, len(self._batches))
        self._measures = task.evaluation.measures
        self._threads = task.experiment.training.threads
        self._known: tuple[State, Diagnosis] | None = None  # the last spread, and what it follows from

    def __call__(self, state: Server | Update, *, classes: bool = False) -> Diagnosis:
        """Return what a run records, with what needs labels or without: the rest of many rounds fills memory."""
        load_into(self._model, {**state.weights, **state.buffers})
        if classes:
            return Diagnosis.from_dict(self.diagnose(self._model, weights=False).recorded())
        scores: list[Score] = []
        with self._settings():
            spread = self._spread(scores, {**state.weights, **state.buffers})
        return replace(spread, **vars(_mean(scores, spread.samples)))

    def diagnose(
        self,
        model: nn.Module,
        *,
        name: str = "model",
        layer: str | None = None,
        weights: bool = True,
        compared_with: tuple[nn.Module, Diagnosis] | None = None,
    ) -> Diagnosis:
        """Return everything about a model, with its layers' weights or without.

        Compared, image by image, with another that was diagnosed before, if one is given: then both go over
        each batch, so that nothing is held.
        """
        other, reference = compared_with or (None, None)
        networks = [Reference(each, layer=layer) for each in (model, other) if each is not None]
        subject = Subject(model if weights else None, classifier_weight(find_classifier(model, layer)), reference)
        scores: list[Score] = []
        with self._settings():
            gathered = add_up(self._look(scores, ChunkStatistics.of, *networks))
            found = Diagnosis.of(name, gathered, subject=subject, measures=self._measures)
        return replace(found, loss=_mean(scores, found.samples).loss)

    def represent(self, model: nn.Module, layer: str | None = None) -> Batch:
        """Return the representations of all images, with labels and the model's decisions."""
        with threads(self._threads):
            found = self._look([], lambda batch: batch, Reference(model, layer=layer))
            return next(chunks(found, sum(map(len, self._batches))))

    def layer_ranks(self, model: nn.Module) -> dict[str, float]:
        """Return the effective rank of the input of each layer of a model."""
        with self._settings():
            return layer_ranks(model, map(self._task.inputs, self._batches))

    @contextmanager
    def _settings(self) -> Iterator[None]:
        deterministic = self._task.experiment.training.deterministic
        with threads(self._threads), devices.configured(self._task.device, deterministic=deterministic):
            yield

    def _spread(self, scores: list[Score], state: State) -> Diagnosis:
        """Measure the spread of the representations, unless they are those of the last model."""
        network = Reference(self._model)
        causes = {name: tensor.clone() for name, tensor in state.items() if name in self._causes}
        if self._known and all(torch.equal(tensor, causes[name]) for name, tensor in self._known[0].items()):
            for _ in self._look(scores, lambda _: None, network):
                pass
        else:
            statistics = reduce(add, self._look(scores, lambda batch: Statistics.of(batch.z), network))
            principal = Principal(statistics.moments)
            custom = measure_custom(self._measures, principal)
            self._known = causes, Diagnosis(**vars(measure_spread(principal, rankme=False)), measures=custom)
        return self._known[1]

    @cached_property
    def _model(self) -> nn.Module:
        return self._task.build_model()

    @cached_property
    def _pool(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self._parallel_jobs, initializer=torch.set_num_threads, initargs=(self._threads,))

    @cached_property
    def _causes(self) -> set[str]:
        """The names of all that representations follow from: buffers, and parameters that autograd finds behind them.

        With logistic regression, that is nothing at all; when only the classifier is trained, nothing that changes.
        """
        trainable = {name: each for name, each in self._model.named_parameters() if each.requires_grad}
        x, _ = self._task.inputs(self._batches[0].split(2)[0])
        with capture_representations(self._model.eval()) as seen:
            self._model(x)
        apart = set(trainable)
        if seen.z.requires_grad:
            gradients = torch.autograd.grad(seen.z.sum(), list(trainable.values()), allow_unused=True)
            apart = {name for name, gradient in zip(trainable, gradients, strict=True) if gradient is None}
        return _tensors(self._model).keys() - apart

    def _look(self, scores: list[Score], keep: Callable[[Batch], Kept], *networks: Reference) -> Iterator[Kept]:
        """Yield what is kept of each batch, in order; the network's scores are added to the list."""
        free: SimpleQueue[Sequence[Look]] = SimpleQueue()
        twins = [[network.twin() for network in networks] for _ in range(self._parallel_jobs - 1)]

        @torch.no_grad()
        def look(images: Images) -> _Seen:
            mine = free.get()
            try:
                x, y = self._task.inputs(images)
                (z, logits), *others = [network(x) for network in mine]
            finally:
                free.put(mine)
            return _Seen(cross_entropy(logits, y, reduction="sum"), logits.argmax(1), z, *(each for each, _ in others))

        def weigh(seen: _Seen, labels: Tensor) -> tuple[Score, Kept]:
            if not math.isfinite(loss := float(seen.loss)):
                raise RunError(f"the loss on the test images became {loss}; lower training.lr")
            score = Score(loss, int((seen.decisions == labels).sum()))
            return score, keep(Batch(seen.z, labels, seen.decisions, seen.reference))

        with ExitStack() as watch:
            for every in (networks, *twins):
                free.put([watch.enter_context(network.watched()) for network in every])
            if devices.on_host(self._task.device):
                found = self._pool.map(lambda images: weigh(look(images), images.labels), self._batches)
            else:
                seen = _to_host([look(images) for images in self._batches])
                found = self._pool.map(weigh, seen, self._labels)
            for score, kept in found:
                scores.append(score)
                yield kept


def _tensors(model: nn.Module) -> State:
    tensors = [*model.named_parameters(), *model.named_buffers()]
    return {name: tensor.detach() for name, tensor in tensors}


def _mean(scores: list[Score], count: int) -> DecisionMeasures:
    losses, right = zip(*scores, strict=True)
    return DecisionMeasures(accuracy=sum(right) / count, loss=math.fsum(losses) / count)


FORWARD = 3
"""The number of forward passes that cost as much as a training step on the same images."""

SHARE = 10
"""How many times as much as its evaluations the training costs at least, under `auto`."""

ADVICE = "regularizers.feddecorr.dying=counted works against that."


@dataclass(frozen=True)
class Evaluated:
    """What was found out in a round: of the global model, of the clients' and of what averaging did to them.

    `updates` are the changes that clients sent, by layer, `adapters` the ranks of their adapters, averaged both ways.
    `notes` say of which client's model nothing was, and why.
    """

    model: Diagnosis | None = None
    local: dict[int, Diagnosis] = field(default_factory=dict)
    averaging: Averaging | None = None
    updates: dict[str, LayerUpdates] = field(default_factory=dict)
    adapters: dict[str, AdapterRanks] = field(default_factory=dict)
    notes: dict[int, str] = field(default_factory=dict)


class Evaluations:
    """What is found out in each round, where it is due.

    A server that has no test images knows what its clients find out on their own, if they do, and else nothing.
    """

    def __init__(self, federation: Federation, options: RunOptions, elsewhere: Evaluating | None = None) -> None:
        self._local: dict[int, Diagnosis] = {}
        self._notes: dict[int, str] = {}
        self._mean = Mean()
        self._updates: RoundUpdates | None = None
        self._adapters = AdapterMean(federation.experiment.training.adapter)
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

    def watch(self, updates: Iterable[Update], broadcast: Broadcast, info: RoundInfo) -> Iterator[Update]:
        """Evaluate the clients' models on their way to the server: no engine knows of it."""
        self._local, self._notes, self._mean = {}, {}, STATISTICS[self._experiment.batchnorm]()
        looks_at_updates = self._options.evaluation.updates and self._is_due(info.round)
        self._updates = RoundUpdates(broadcast.weights) if looks_at_updates else None
        self._adapters = AdapterMean(self._experiment.training.adapter)
        for update in self._adapters.see(updates) if self._is_due(info.round) else updates:
            if self._updates is not None:
                self._updates.take(update.weights, update.examples)
            if looks_at_clients(self._options, info.round) and (found := self._look_at(update)):
                self._local[update.client] = replace(found, client=update.client)
                self._mean.add({**update.weights, **update.buffers}, update.examples)
            yield update

    def after(self, now: Round) -> Evaluated:
        """Evaluate the global model after a round, and return all that was found out; warn if its features die."""
        if self._evaluate is None and self._elsewhere is not None and self._is_due(now.number):
            model = self._elsewhere.evaluate(now.number, now.server)
            return replace(self._of_clients(), model=model)
        try:
            model = self._look(now.number, now.server)
        except RunError as error:
            raise RunError(f"round {now.number}: {now.outlier or error}") from error
        if model and self._dying:
            self._dying.see(_dead(model))
        return replace(self._of_clients(), model=model, averaging=self._averaging(now, model))

    def _of_clients(self) -> Evaluated:
        """Return what was found out about the clients on their updates' way."""
        return Evaluated(
            local=dict(sorted(self._local.items())),
            updates={} if self._updates is None else self._updates.layers(),
            adapters=self._adapters.ranks(),
            notes=self._notes,
        )

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
        """Evaluate a client's model, or take what it found out itself; what is unknown costs no more."""
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
    """Return whether a round is evaluated, in that rhythm or as one of the last."""
    return number % every == 0 or options.rounds - options.evaluation.final < number <= options.rounds


def looks_at_clients(options: RunOptions, number: int) -> bool:
    """Return whether the clients' models are evaluated with that round."""
    clients = options.evaluation.clients
    return number == options.rounds if clients == "last" else clients


def rhythm(experiment: Experiment, evaluation: Evaluation, train: int, test: int) -> int:
    """Return the number of rounds from one evaluation to the next, given the numbers of images.

    Under `auto` it is the least for which the evaluations' forward passes cost at most a tenth of the training.
    Images are counted, and no clock is read: it is the same on every machine.
    """
    every = evaluation.every
    evaluated = test * (1 + experiment.cohort * (evaluation.clients is True))
    return math.ceil(SHARE * evaluated / (FORWARD * experiment.trained_images(train))) if every == "auto" else every


def evaluated_images(experiment: Experiment, options: RunOptions, train: int, test: int) -> int:
    """Return the number of images in all evaluations of a run, those of the clients' models included."""
    every = rhythm(experiment, options.evaluation, train, test)
    final = min(options.evaluation.final, options.rounds)
    due = (options.rounds - final) // every + final
    of_clients = {"last": 1, True: due, False: 0}[options.evaluation.clients]
    return test * (due + experiment.cohort * of_clients)
