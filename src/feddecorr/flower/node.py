"""What a node holds: a client's images and what the client remembers, where the node's owner said."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

from flwr.app import Context

from feddecorr.data import DATA
from feddecorr.data.dataset import Dataset, Images, PixelSums
from feddecorr.errors import UserError
from feddecorr.federation import Shard, Shards, Simulation, Task
from feddecorr.files import load_tensors
from feddecorr.flower.introduction import Introduction, relabelled
from feddecorr.runs.memories import Memories
from feddecorr.settings.experiment import Experiment
from feddecorr.settings.words import read_words

DEFAULT_MEMORY = Path("~/.local/state/feddecorr")
"""Where clients remember, unless the node's configuration says otherwise."""


class Node(Protocol):
    """One client's place."""

    @property
    def client(self) -> int:
        """The number of the client."""

    def shard(self, task: Task) -> Shard:
        """Return what the client trains on."""

    def held_out(self, task: Task) -> Images:
        """Return what the client evaluates models on."""

    def memories(self, run: str) -> Memories:
        """Return what it remembers of a run."""

    def settle(self, memories: Memories, counted: int) -> None:
        """Drop what is no longer needed, now that the client's part in that round is known to count."""


@dataclass(frozen=True)
class Simulated:
    """A node of a simulation: the images of all are in one file, and the run keeps what clients remember."""

    client: int
    shards: str

    def shard(self, task: Task) -> Shard:  # noqa: ARG002 - the same for all tasks
        """Cut it out of the file."""
        return _shards(self.shards)[self.client]

    def held_out(self, task: Task) -> Images:
        """Return what it trains on: the run itself has the test images."""
        return self.shard(task).images

    def memories(self, run: str) -> Memories:
        """Find them in the run's directory."""
        return Memories(Path(run))

    def settle(self, memories: Memories, counted: int) -> None:
        """Leave it to the run."""


@dataclass(frozen=True)
class Deployed:
    """A SuperNode: its owner gave it the client's number, its data and a place on its disk."""

    client: int
    data: str | None
    memory: Path

    def shard(self, task: Task) -> Shard:
        """Return the images, with labels counted by the federation's classes."""
        images, classes = self._images(task.experiment)
        return Shard(self.client, relabelled(images, classes, task.classes))

    def held_out(self, task: Task) -> Images:
        """Return its own test images; of a known data set, its part of the training images."""
        if self.data is None:
            return self.shard(task).images
        dataset = self._own(self.data)
        return relabelled(dataset.test, dataset.classes, task.classes)

    def memories(self, run: str) -> Memories:
        """Find them on the node's own disk."""
        if not re.fullmatch(r"[0-9a-f]{32}", run):
            raise UserError(f"'{run}' is no name of a run")
        return Memories(self.memory / run)

    def settle(self, memories: Memories, counted: int) -> None:
        """Drop what is older."""
        memories.settle([self.client], counted)

    def introduce(self, experiment: Experiment) -> Introduction:
        """Say what the server has to know of the node: sizes, and sums over pixels, no image and no label."""
        images, classes = self._images(experiment)
        height, width, channels = images.pixels.shape[1:]
        known = None if self.data else Simulation(experiment).task
        return Introduction(
            client=self.client,
            examples=len(images),
            shape=(channels, height, width),
            classes=classes,
            sums=PixelSums.of(images.pixels),
            constants=None if known is None else (known.mean, known.std),
        )

    def _images(self, experiment: Experiment) -> tuple[Images, tuple[str, ...]]:
        """Return the node's images and the names of their classes: its own, or its part of the experiment's."""
        if self.data is None:
            simulation = Simulation(experiment)
            return simulation.shards[self.client].images, simulation.task.classes
        dataset = self._own(self.data)
        return dataset.train, dataset.classes

    @staticmethod
    def _own(data: str) -> Dataset:
        return DATA.parse(read_words([f"data={data}"])["data"]).load()


def find_node(context: Context) -> Node:
    """Return the node that a ClientApp runs on."""
    config: Mapping[str, Any] = context.node_config
    if "client" in config:
        return deployed(config)
    if "partition-id" in config and "shards" in context.run_config:
        return Simulated(int(config["partition-id"]), str(context.run_config["shards"]))
    raise UserError(f"the node does not say which client it is: start it with --node-config 'client=0 …', not {config}")


def deployed(config: Mapping[str, Any]) -> Deployed:
    """Return the node of that configuration."""
    client, data = config["client"], config.get("data")
    if not isinstance(client, int) or client < 0:
        raise UserError(f"client={client!r}: a client is a whole number from 0 on")
    if unknown := set(config) - {"client", "data", "memory", "partition-id", "num-partitions"}:
        raise UserError(f"unknown in --node-config: {', '.join(sorted(unknown))}; there are client, data and memory")
    memory = Path(str(config.get("memory", DEFAULT_MEMORY))).expanduser()
    return Deployed(client, None if data is None else str(data), memory)


@lru_cache(maxsize=1)
def _shards(path: str) -> Shards:
    """Return all clients' shards as views of the file, which the processes of this machine share."""
    tensors = load_tensors(Path(path))
    return Shards(Images(tensors["pixels"], tensors["labels"]), tensors["order"], tensors["bounds"])
