"""How much a run has to do, and how long that takes on this machine: from two steps of its largest client."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace

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
    experiment = simulation.task.experiment
    start = simulation.federation.start()
    broadcast = replace(experiment.method.broadcast(1, start), round=1)
    shard = simulation.shards[int(simulation.shards.sizes.argmax())]
    memory: State = {}

    def seconds(steps: int) -> float:
        training = experiment.training.model_copy(update={"steps": steps})
        task = replace(simulation.task, experiment=experiment.model_copy(update={"training": training}))
        client = Client(task)
        began = time.perf_counter()
        client(broadcast, shard, memory)
        return time.perf_counter() - began

    images = min(experiment.training.batch, len(shard))
    seconds(1)
    one, three = seconds(1), seconds(3)
    return max(three - one, 0.0) / (2 * images) or one / images


def processes(experiment: Experiment, options: RunOptions) -> int:
    """Return how many processes train for a run."""
    return min(options.engine.parallel_jobs(experiment.training.threads), math.ceil(experiment.cohort))
