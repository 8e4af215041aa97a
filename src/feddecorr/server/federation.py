"""The federation: the roster of clients, and connections to them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from feddecorr.collapse.diagnosis import Diagnosis
from feddecorr.config.experiment import Experiment
from feddecorr.config.training import Evaluation
from feddecorr.core.client_memory import Memories
from feddecorr.core.messages import Broadcast, Failure, RoundInfo, Server, Update
from feddecorr.core.states import state_dict_names
from feddecorr.data.dataset import Images
from feddecorr.errors import UserError
from feddecorr.models.partial import body
from feddecorr.partition.heterogeneity import LabelCounts
from feddecorr.training.shards import Shards
from feddecorr.training.task import Task

RunClients = Callable[[Broadcast, Sequence[int]], Iterator[Update | Failure]]
"""Trains the given clients and yields an update or a failure for each, in the order of the clients."""


@dataclass(frozen=True)
class Roster:
    """What the server knows about its clients, numbered from 0: their examples and, optionally, label counts."""

    sizes: NDArray[np.int64]
    labels: LabelCounts | None = None

    def __len__(self) -> int:
        return len(self.sizes)


@dataclass(frozen=True)
class Federation:
    """What a server has: the task, the roster and, optionally, test images.

    `note` says what readers of results must know about the data. `data` and `split` are digests of the
    training images and of the split, if this process sees all images.
    """

    task: Task
    roster: Roster
    test: Images | None = None
    note: str = ""
    data: str | None = None
    split: str | None = None

    @property
    def experiment(self) -> Experiment:
        """The experiment of the task."""
        return self.task.experiment

    def info(self, number: int) -> RoundInfo:
        """Return what the server's hooks receive in a round."""
        return RoundInfo(number, self.experiment.seed, self.roster.sizes, self.experiment.rate, self.task.classifier)

    def start(self) -> Server:
        """Return the server before the first round."""
        return self.begin()[0]

    def begin(self) -> tuple[Server, dict[str, str]]:
        """Return the server before the first round, and the names of its tensors in the network's `state_dict`."""
        model = self.task.build_model()
        if self.experiment.method.trains(1) == "body" and not body(model):
            raise UserError(
                f"{type(self.experiment.method).__name__} leaves the classifier as it is, and nothing else of this "
                "network is trained: choose another method, or another network or training.trainable"
            )
        if not self.experiment.training.is_partial:
            self.experiment.model.load_initial_weights(model)
        if self.experiment.training.batch == 1 or 1 in self.roster.sizes:
            self._refuse_single(model)
        weights = {name: parameter.detach().cpu() for name, parameter in model.named_parameters()}
        buffers = {name: buffer.cpu() for name, buffer in model.named_buffers()}
        return self.experiment.method.start(Server(weights, buffers), self.info(0)), state_dict_names(model)

    def _refuse_single(self, model: nn.Module) -> None:
        """Refuse steps of a single example where the network cannot take them, as BatchNorm does not."""
        copied = copy.deepcopy(model).cpu().train()
        try:
            with torch.no_grad(), torch.random.fork_rng():
                copied(torch.zeros(1, *self.task.shape))
        except ValueError as error:
            if self.experiment.training.batch == 1:
                why = "training.batch=1: use batches of at least two"
            else:
                why = f"client {list(self.roster.sizes).index(1)} holds a single example: use partition.minimum=2"
            raise UserError(
                f"{why}, or a network without BatchNorm, which learns nothing from one example ({error})"
            ) from error


class Connection(Protocol):
    """A connection to the clients of a federation, wherever they are."""

    @property
    def federation(self) -> Federation:
        """What the server knows about them."""

    def open(self, memories: Memories) -> AbstractContextManager[RunClients]:
        """Prepare for training; client state is kept in `memories`, unless clients keep it themselves."""


@runtime_checkable
class Evaluating(Protocol):
    """A connection whose clients evaluate models on their own images, for a server without test images."""

    def evaluate(self, number: int, server: Server) -> Diagnosis | None:
        """Return the clients' joint diagnosis of the global model after a round; None if no client can evaluate."""


class Simulation:
    """Simulated clients: a data set, split on this machine. An engine trains them."""

    def __init__(self, experiment: Experiment, *, device: str = "cpu", evaluation: Evaluation | None = None) -> None:
        """Load the data and split it."""
        dataset = experiment.data.load()
        experiment = experiment.pinned(dataset.sha256)
        labels = dataset.train.labels.numpy()
        owners = None if dataset.owners is None else dataset.owners.numpy()
        parts = experiment.partition.split(labels, clients=experiment.clients, seed=experiment.seed, owners=owners)
        train = dataset.train
        for transform in experiment.transforms.values():
            train = replace(train, labels=transform.labels(train.labels, parts, len(dataset.classes)))
        self.dataset = dataset
        self.shards = Shards.of(train, parts)
        self.labels = LabelCounts.of(parts, labels, len(dataset.classes))
        self.federation = Federation(
            task=Task.of(experiment, dataset, device, evaluation),
            roster=Roster(self.shards.sizes, self.labels),
            test=dataset.test,
            note=dataset.note,
            data=dataset.sha256,
            split=self.shards.digest(),
        )

    @property
    def task(self) -> Task:
        """What the server and all clients know."""
        return self.federation.task

    def trained_rounds(self) -> float:
        """Return how many rounds of local steps its clients have taken so far, on the average and in parts."""
        seen = 0 if self.shards.seen is None else int(self.shards.seen.sum())
        return seen / self.task.experiment.trained_images(int(self.shards.sizes.sum()))

    def apart(self) -> Simulation:
        """Return the same simulation without transforms and pre-aggregation: each client sends its own plain update."""
        experiment = self.task.experiment
        training = experiment.training.model_copy(update={"pre_aggregate": False})
        return self.with_task(
            replace(self.task, experiment=experiment.model_copy(update={"training": training, "transforms": {}}))
        )

    def with_task(self, task: Task) -> Simulation:
        """Return the same clients with another task."""
        same = copy.copy(self)
        same.federation = replace(self.federation, task=task)
        return same
