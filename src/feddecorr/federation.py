"""Who knows what: the task is known to everyone, a shard to one client, the roster to the server."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import PositiveFloat, PositiveInt
from torch import Tensor, nn

from feddecorr.data.dataset import Images, Standardize
from feddecorr.errors import UserError
from feddecorr.grouping import Together, choose
from feddecorr.messages import RoundInfo, Server
from feddecorr.models.placement import prepare
from feddecorr.partition import Parts
from feddecorr.partition.label_counts import LabelCounts
from feddecorr.randomness import seeded
from feddecorr.representation import capture_representations
from feddecorr.settings.kinds import Kind
from feddecorr.settings.trust import Trust
from feddecorr.states import state_dict_names

if TYPE_CHECKING:
    from feddecorr.collapse.diagnosis import Diagnosis
    from feddecorr.engines.engine import RunClients
    from feddecorr.runs.memories import Memories
    from feddecorr.settings.experiment import Experiment


@dataclass(frozen=True)
class Task:
    """What everyone knows: the experiment, what images look like, and the constants that standardize them."""

    experiment: Experiment
    shape: tuple[int, int, int]
    classes: tuple[str, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]

    def __post_init__(self) -> None:
        """Refuse what cannot be learned; a single client may well hold a single class."""
        if len(self.classes) < 2:
            raise UserError(f"there is nothing to tell apart: the only class is '{''.join(self.classes)}'")

    @cached_property
    def normalize(self) -> Standardize:
        """What turns pixels into the network's input."""
        return Standardize(self.shape, self.mean, self.std)

    @cached_property
    def together(self) -> Together:
        """How many clients train side by side; an experiment that asks for what cannot be is refused."""
        return choose(self.experiment, self.shape, self.build_model)

    @cached_property
    def width(self) -> int:
        """The number of features in a representation."""
        model = self.build_model().eval()
        with torch.no_grad(), capture_representations(model) as seen:
            model(self.normalize(torch.zeros(1, *self.shape[1:], self.shape[0]).to(self.experiment.training.device)))
        return seen.z.shape[1]

    def groups(self, clients: Sequence[int]) -> list[Sequence[int]]:
        """Return the clients of a round in groups that train side by side: the same, whoever runs them."""
        size = self.together.clients
        return [clients[start : start + size] for start in range(0, len(clients), size)]

    def build_model(self) -> nn.Module:
        """Return the network, ready to run, always with the same first weights."""
        with seeded(self.experiment.seed, "model"):
            model = self.experiment.model.build(self.shape, len(self.classes))
        return prepare(model, self.experiment.training)

    def inputs(self, images: Images) -> tuple[Tensor, Tensor]:
        """Return the images as the network takes them, and their labels."""
        device = self.experiment.training.device
        return self.normalize(images.pixels.to(device)), images.labels.to(device)

    def to_dict(self) -> dict[str, Any]:
        """Return the task, ready for JSON; `from_dict` of the class takes it back."""
        return {
            "experiment": self.experiment.to_dict(),
            "shape": list(self.shape),
            "classes": list(self.classes),
            "mean": list(self.mean),
            "std": list(self.std),
        }

    @classmethod
    def from_dict(cls, document: dict[str, Any], *, trust: bool = False) -> Task:
        """Return the task that `to_dict` wrote down; who trusts its sender lets it name code that is not ours."""
        from feddecorr.settings.experiment import Experiment  # noqa: PLC0415 - experiments hold engines, which hold tasks

        stated = _Stated.parse(document)
        return cls(
            Experiment.parse(stated.experiment, Trust(files=trust)),
            stated.shape,
            stated.classes,
            stated.mean,
            stated.std,
        )


class _Stated(Kind):
    """A task as JSON says it."""

    experiment: dict[str, Any]
    shape: tuple[PositiveInt, PositiveInt, PositiveInt]
    classes: tuple[str, ...]
    mean: tuple[float, ...]
    std: tuple[PositiveFloat, ...]


@dataclass(frozen=True)
class Shard:
    """What one client holds: its own images and labels."""

    client: int
    images: Images

    def __len__(self) -> int:
        return len(self.images)


@dataclass(frozen=True)
class Shards:
    """The shards of all clients on this machine: images together, and which are whose.

    Client k holds the images `order[bounds[k]:bounds[k + 1]]`. A shard is copied out when its client plays.
    """

    images: Images
    order: Tensor
    bounds: Tensor

    @classmethod
    def of(cls, images: Images, parts: Parts) -> Shards:
        """Put the parts one after another."""
        return cls(images, torch.from_numpy(parts.order), torch.from_numpy(parts.bounds))

    def __len__(self) -> int:
        return len(self.bounds) - 1

    def __getitem__(self, client: int) -> Shard:
        mine = self.order[self.bounds[client] : self.bounds[client + 1]]
        pixels = self.images.pixels.index_select(0, mine)
        return Shard(client, Images(pixels, self.images.labels.index_select(0, mine)))

    @property
    def parts(self) -> Parts:
        """Everybody's examples, by their places in the images."""
        return Parts(self.order.numpy(), self.bounds.numpy())

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Everybody's number of examples."""
        return self.bounds.diff().numpy()

    def digest(self) -> str:
        """Return the sha256 of who holds which examples."""
        digest = hashlib.sha256(self.bounds.numpy().tobytes())
        digest.update(self.order.numpy().tobytes())
        return digest.hexdigest()

    @property
    def nbytes(self) -> int:
        """How much memory they take."""
        return sum(each.nbytes for each in (self.images.pixels, self.images.labels, self.order, self.bounds))

    def share(self) -> None:
        """Move to shared memory, where worker processes see everything without a copy."""
        self.images.share()
        self.order.share_memory_()
        self.bounds.share_memory_()


@dataclass(frozen=True)
class Roster:
    """What the server knows of its clients, numbered from 0: how many examples and, perhaps, of which classes."""

    sizes: NDArray[np.int64]
    labels: LabelCounts | None = None

    def __len__(self) -> int:
        return len(self.sizes)


@dataclass(frozen=True)
class Federation:
    """What a server has: the task, the roster and, if it is lucky, test images.

    `note` says what a reader of results has to know about the data. `data` and `split` are digests of the
    training images and of who holds them, where somebody sees them all.
    """

    task: Task
    roster: Roster
    test: Images | None = None
    note: str = ""
    data: str | None = None
    split: str | None = None

    @property
    def experiment(self) -> Experiment:
        """The experiment that all of it is for."""
        return self.task.experiment

    def info(self, number: int) -> RoundInfo:
        """Return what the server's hooks are told in a round."""
        return RoundInfo(number, self.experiment.seed, self.roster.sizes, self.experiment.rate)

    def start(self) -> Server:
        """Return the server before the first round."""
        return self.begin()[0]

    def begin(self) -> tuple[Server, dict[str, str]]:
        """Return the server before the first round, and the names of its tensors in the network's `state_dict`."""
        model = self.task.build_model()
        self.experiment.model.begin(model)
        weights = {name: parameter.detach().cpu() for name, parameter in model.named_parameters()}
        buffers = {name: buffer.cpu() for name, buffer in model.named_buffers()}
        return self.experiment.method.start(Server(weights, buffers), self.info(0)), state_dict_names(model)


class Connection(Protocol):
    """A way to the clients of a federation, wherever they are."""

    @property
    def federation(self) -> Federation:
        """What is known of them."""

    def open(self, memories: Memories) -> AbstractContextManager[RunClients]:
        """Get ready to train them; what they remember is kept in `memories`, unless they keep it themselves."""


@runtime_checkable
class Evaluating(Protocol):
    """A connection whose clients evaluate models on images of their own, for a server that has none."""

    def evaluate(self, number: int, server: Server) -> Diagnosis | None:
        """Return what they find out together about the global model after a round; None if nobody can."""


class Simulation:
    """A connection to clients that all live on this machine: a data set, dealt out."""

    def __init__(self, experiment: Experiment) -> None:
        """Load the data and split it."""
        dataset = experiment.data.load()
        experiment = experiment.pinned(dataset.sha256)
        labels = dataset.train.labels.numpy()
        parts = experiment.partition.split(labels, clients=experiment.clients, seed=experiment.seed)
        train = dataset.train
        for transform in experiment.transforms.values():
            train = replace(train, labels=transform.labels(train.labels, parts, len(dataset.classes)))
        self.dataset = dataset
        self.shards = Shards.of(train, parts)
        self.labels = LabelCounts.of(parts, labels, len(dataset.classes))
        self.federation = Federation(
            task=Task(experiment, dataset.shape, dataset.classes, dataset.mean, dataset.std),
            roster=Roster(self.shards.sizes, self.labels),
            test=dataset.test,
            note=dataset.note,
            data=dataset.sha256,
            split=self.shards.digest(),
        )

    @property
    def task(self) -> Task:
        """What everyone knows."""
        return self.federation.task

    def settled(self, precision: Literal["fp32", "bf16"]) -> Simulation:
        """Return the same simulation, with a precision in place of `auto`."""
        return self._with(self.task.experiment.settled(precision))

    def apart(self) -> Simulation:
        """Return the same simulation, in which every client sends what it trained, as it is."""
        experiment = self.task.experiment
        training = experiment.training.model_copy(update={"merge": False})
        return self._with(experiment.model_copy(update={"training": training, "transforms": {}}))

    def _with(self, experiment: Experiment) -> Simulation:
        same = copy.copy(self)
        same.federation = replace(self.federation, task=replace(self.task, experiment=experiment))
        return same

    def open(self, memories: Memories) -> AbstractContextManager[RunClients]:
        """Let the experiment's engine run the clients."""
        return self.task.experiment.engine.open(self.task, self.shards, memories)
