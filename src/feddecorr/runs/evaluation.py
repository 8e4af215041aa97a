"""A model on images: accuracy, loss, and every measure of its representations."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from functools import cached_property, reduce
from operator import add
from queue import SimpleQueue
from typing import NamedTuple, TypeVar

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from feddecorr.collapse.diagnosis import Diagnosis, Subject, layer_ranks, measure_custom
from feddecorr.collapse.measures import Principal, classifier_weight, measure_spread
from feddecorr.collapse.neural_collapse import DecisionMeasures
from feddecorr.collapse.representation import capture_representations, find_classifier
from feddecorr.collapse.statistics import Batch, ChunkStatistics, Statistics, add_up
from feddecorr.core.messages import Server, Update
from feddecorr.core.randomness import threads
from feddecorr.core.states import State, load_into
from feddecorr.data.dataset import Images
from feddecorr.errors import RunError
from feddecorr.objective.reference_models import Look, Reference
from feddecorr.training.task import Task

Kept = TypeVar("Kept")


class Score(NamedTuple):
    """How well one batch was classified: the sum of the cross-entropy, and the number of right decisions."""

    loss: float
    right: int


class Evaluator:
    """Evaluates models, global or local, on some images; draws no random number.

    The images are cut into the experiment's batches of evaluation, which threads look at, each by itself. What they
    find is put together in the order of the batches: how many threads there are changes no bit.
    """

    def __init__(self, task: Task, images: Images, parallel_jobs: int = 1) -> None:
        self._task = task
        self._batches = images.split(task.evaluation.batch)
        self._parallel_jobs = min(parallel_jobs, len(self._batches))
        self._measures = task.evaluation.measures
        self._threads = task.experiment.training.threads
        self._known: tuple[State, Diagnosis] | None = None  # the last spread, and what it follows from

    def __call__(self, state: Server | Update, *, classes: bool = False) -> Diagnosis:
        """Return what a run records, with what labels tell or without: the rest of many rounds fills memory."""
        load_into(self._model, {**state.weights, **state.buffers})
        if classes:
            return Diagnosis.from_dict(self.diagnose(self._model, weights=False).recorded())
        scores: list[Score] = []
        with threads(self._threads):
            spread = self._spread(scores)
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
        with threads(self._threads):
            gathered = add_up(self._look(scores, ChunkStatistics.of, *networks))
            found = Diagnosis.of(name, gathered, subject=subject, measures=self._measures)
        return replace(found, loss=_mean(scores, found.samples).loss)

    def layer_ranks(self, model: nn.Module) -> dict[str, float]:
        """Return how many dimensions there are in what goes into each layer of a model."""
        with threads(self._threads):
            return layer_ranks(model, map(self._task.inputs, self._batches))

    def _spread(self, scores: list[Score]) -> Diagnosis:
        """Measure the spread of the representations, unless they are those of the last model."""
        network = Reference(self._model)
        causes = {name: tensor.clone() for name, tensor in _tensors(self._model).items() if name in self._causes}
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
        def look(images: Images) -> tuple[Score, Kept]:
            mine = free.get()
            try:
                x, y = self._task.inputs(images)
                (z, logits), *others = [network(x) for network in mine]
            finally:
                free.put(mine)
            loss, decisions = float(cross_entropy(logits, y, reduction="sum")), logits.argmax(1)
            if not math.isfinite(loss):
                raise RunError(f"the loss on the test images became {loss}; lower training.lr")
            score = Score(loss, int((decisions == y).sum()))
            return score, keep(Batch(z, y, decisions, others[0][0] if others else None))

        with ExitStack() as watch:
            for every in (networks, *twins):
                free.put([watch.enter_context(network.watched()) for network in every])
            for score, kept in self._pool.map(look, self._batches):
                scores.append(score)
                yield kept


def _tensors(model: nn.Module) -> State:
    tensors = [*model.named_parameters(), *model.named_buffers()]
    return {name: tensor.detach() for name, tensor in tensors}


def _mean(scores: list[Score], count: int) -> DecisionMeasures:
    losses, right = zip(*scores, strict=True)
    return DecisionMeasures(accuracy=sum(right) / count, loss=math.fsum(losses) / count)
