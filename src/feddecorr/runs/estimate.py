"""What a run has to do, and how long that takes: counted for any device, or measured in two steps on this machine."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from functools import cache

from feddecorr.config.experiment import Experiment
from feddecorr.core.states import State
from feddecorr.data.dataset import Data, Outline
from feddecorr.partition.skew import Homogeneous
from feddecorr.runs.evaluation import FORWARD, evaluated_images
from feddecorr.runs.hardware import GB, Hardware
from feddecorr.runs.operations import ClientWork, Operations, count_client
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
    rounds: int
    images_per_round: float
    steps_per_round: float
    images: float
    evaluated: float

    @classmethod
    def of(cls, experiment: Experiment, options: RunOptions, outline: Outline) -> Work:
        """Count it."""
        train, test = outline.train, outline.test
        images = experiment.trained_images(train)
        return cls(
            train=train,
            test=test,
            shape=outline.shape,
            classes=outline.classes,
            rounds=options.rounds,
            images_per_round=images,
            steps_per_round=images / min(experiment.training.batch, max(1, train / experiment.clients)),
            images=options.rounds * images,
            evaluated=evaluated_images(experiment, options, train, test),
        )

    def describe(self) -> list[str]:
        """Return it in lines for a reader."""
        channels, height, width = self.shape
        size = f"{height}×{width}×{channels}"
        return [
            f"data: {self.train} training and {self.test} test images of {size} in {self.classes} classes",
            f"training: {self.rounds} rounds of about {self.images_per_round:.0f} images in {self.steps_per_round:.0f} "
            f"steps, {self.images:.0f} images in all",
            f"evaluation: {self.evaluated} images in all",
        ]

    def seconds_by(self, image: float, processes: int) -> float:
        """Return how long it takes if an image of training takes so long; evaluation has no backward pass."""
        return image * (self.images + self.evaluated / FORWARD) / processes


@dataclass(frozen=True)
class RunCost(Work):
    """What a run costs: FLOPs of the whole run, bytes to and from a client in a round, memory, and seconds.

    `device_memory` is that of all processes on one card; on the processor there is none besides the host's.
    """

    flops: float
    bytes_to_client: int
    bytes_from_client: int
    processes: int
    device_memory: int | None
    host_memory: int
    seconds: float


CONTEXT = GB // 2
"""Bytes of a card that a process takes before it has a tensor there, and PyTorch's kernels."""

RUNTIME = GB // 2
"""Bytes of the host that a process takes with PyTorch and this package."""


def cost_of(experiment: Experiment, options: RunOptions, hardware: Hardware) -> RunCost:
    """Return what a run costs on a device, without running anything and without its data, where those are public."""
    outline = _outline(experiment.data)
    work = Work.of(experiment, options, outline)
    client = _client(_without_chance(experiment), options.model_copy(update={"rounds": 1}), outline)
    plays, evaluations = options.rounds * experiment.cohort, work.evaluated / client.evaluated
    count = processes(experiment, options)

    def busy(operations: Operations) -> float:
        return sum(
            number * hardware.seconds(flops=call.flops, kind=call.kind, size=call.bytes)
            for call, number in operations.calls.items()
        )

    computing = plays * client.total(busy) + evaluations * busy(client.forward)
    calls = plays * client.total(lambda step: step.count) / client.clients_per_batch
    starting = hardware.call * (calls + evaluations * client.forward.count)
    each, images = client.memory * client.clients_per_batch, outline.nbytes
    return RunCost(
        **vars(work),
        flops=plays * client.total(lambda step: step.flops) + evaluations * client.forward.flops,
        bytes_to_client=client.received,
        bytes_from_client=client.sent,
        processes=count,
        device_memory=count * (each + images + CONTEXT) if hardware.is_card else None,
        host_memory=images + count * (RUNTIME + (0 if hardware.is_card else each)),
        seconds=max(computing, starting / count) if hardware.is_card else (computing + starting) / count,
    )


def round_flops(experiment: Experiment, options: RunOptions, outline: Outline) -> float:
    """Return the floating-point operations of a round's local training, in every pass that the method makes."""
    return experiment.cohort * count_client(experiment, options, outline).total(lambda step: step.flops)


@cache
def _outline(data: Data) -> Outline:
    return data.outline()


@cache
def _client(experiment: Experiment, options: RunOptions, outline: Outline) -> ClientWork:
    return count_client(experiment, options, outline)


def _without_chance(experiment: Experiment) -> Experiment:
    """Return one value for all experiments whose clients have the same to do, up to how the images are split."""
    return experiment.model_copy(update={"seed": 0, "partition": Homogeneous()})


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
