"""How much a run has to do, and how long that takes on this machine: from two steps of its largest client."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from feddecorr.config.experiment import Experiment
from feddecorr.core.states import State
from feddecorr.runs.evaluation import FORWARD, evaluated_images
from feddecorr.server.federation import Simulation
from feddecorr.settings.options import RunOptions
from feddecorr.training.client import Client


@dataclass(frozen=True)
class Work:
    """What a run has to do; `images` are those of all rounds and clients, `evaluated` those of all evaluations."""

    train: int
    test: int
    shape: tuple[int, int, int]
    classes: int
    images_per_round: float
    steps_per_round: float
    images: float
    evaluated: float

    @classmethod
    def of(cls, simulation: Simulation, options: RunOptions) -> Work:
        """Count it."""
        experiment, train, test = (
            simulation.task.experiment,
            len(simulation.dataset.train),
            len(simulation.dataset.test),
        )
        images = experiment.trained_images(train)
        return cls(
            train=train,
            test=test,
            shape=simulation.task.shape,
            classes=len(simulation.task.classes),
            images_per_round=images,
            steps_per_round=images / min(experiment.training.batch, max(1, train / experiment.clients)),
            images=options.rounds * images,
            evaluated=evaluated_images(experiment, options, train, test),
        )

    def seconds(self, image: float, processes: int) -> float:
        """Return how long it takes if an image of training takes so long; evaluation has no backward pass."""
        return image * (self.images + self.evaluated / FORWARD) / processes


def measure_image(simulation: Simulation) -> float:
    """Return the seconds that an image takes in a step of local training, in this process; the first step is not timed.

    The clients' random numbers are those of a round that no run has.
    """
    client = LargestClient(simulation)

    def seconds(steps: int) -> float:
        began = time.perf_counter()
        client.train(steps=steps)
        return time.perf_counter() - began

    seconds(1)
    one, three = seconds(1), seconds(3)
    return max(three - one, 0.0) / (2 * client.batch) or one / client.batch


def count_flops(simulation: Simulation) -> float:
    """Return the floating-point operations of a round's local training, as PyTorch counts them.

    That is of matrix products, convolutions and attention, forward and backward, in every pass that the method makes; a
    multiplication and an addition are two. The largest client trains on one batch, on two, and on one twice: an image
    may cost less when it comes again, and some work is done once, however many images there are.
    """
    client = LargestClient(simulation)
    client.train(images=client.batch, epochs=1)  # so that it remembers a round

    def count(images: int, epochs: int) -> int:
        counter = FlopCounter()
        with counter:
            client.train(images=images, epochs=epochs)
        return counter.total

    batch, more = client.batch, min(2 * client.batch, len(client.shard))
    once = count(batch, 1)
    first = (count(more, 1) - once) / (more - batch) if more > batch else once / batch
    again = (count(batch, 2) - once) / batch
    experiment, train = simulation.task.experiment, len(simulation.dataset.train)
    images = experiment.trained_images(train) / experiment.cohort
    new = min(images, train / experiment.clients)
    return experiment.cohort * (once - batch * first + new * first + (images - new) * again)


class FlopCounter(TorchDispatchMode):
    """Adds up the operations that are computed, by the formulas of `torch.utils.flop_counter`.

    Its own mode does the same, but imports the compiler for it, which takes seconds.
    """

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Leave the compiler alone: nothing is compiled here."""
        return False

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.total: int = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Compute one operator."""
        found = func(*args, **(kwargs or {}))
        if formula := flop_registry.get(func.overloadpacket):
            self.total += formula(*args, **(kwargs or {}), out_val=found)
        return found


class LargestClient:
    """Trains the client with the most examples from the first model; nothing is kept but what it remembers."""

    def __init__(self, simulation: Simulation) -> None:
        self._task = simulation.task
        self._broadcast = replace(self._task.experiment.method.broadcast(1, simulation.federation.start()), round=1)
        self._memory: State = {}
        self.shard = replace(simulation.shards[int(simulation.shards.sizes.argmax())], seen=None)
        self.batch = min(self._task.experiment.training.batch, len(self.shard))

    def train(self, images: int | None = None, **training: int | None) -> None:
        """Train on its first images, by default on all, with these settings of training."""
        experiment = self._task.experiment
        settings = experiment.training.model_copy(update={"steps": None, **training})
        task = replace(self._task, experiment=experiment.model_copy(update={"training": settings}))
        held = self.shard.images
        places = torch.arange(len(held), device=held.pixels.device)[:images]
        shard = replace(self.shard, images=held.take(places))
        _, self._memory = Client(task)(self._broadcast, shard, self._memory)


def processes(experiment: Experiment, options: RunOptions) -> int:
    """Return how many processes train for a run."""
    return min(options.engine.parallel_jobs(experiment.training.threads), math.ceil(experiment.cohort))
