"""What a node holds: a client's images and what the client remembers, where the node's owner said."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

import torch

from feddecorr.config.experiment import Experiment
from feddecorr.config.overrides import read_overrides
from feddecorr.core.client_memory import Memories
from feddecorr.core.files import load_tensors
from feddecorr.core.paths import InnerPath
from feddecorr.data import DATA, Data
from feddecorr.data.dataset import Images, PixelSums
from feddecorr.errors import UserError
from feddecorr.flower.introduction import Introduction, relabelled
from feddecorr.server.federation import Simulation
from feddecorr.training.shards import Shard, Shards
from feddecorr.training.task import Task

DEFAULT_MEMORY = Path("~/.local/state/feddecorr")
"""Where clients remember, unless the node's configuration says otherwise."""


HOME = "FEDDECORR_SIMULATION"
"""The variable that names the folder of a simulation to its nodes."""

SHARDS = "shards.safetensors"
"""The file with everybody's images, in the folder of a simulation."""

Config = Mapping[str, Any]
"""What `--node-config` says."""

Own = tuple[tuple[str, str | int], ...]
"""Settings by name."""


class Node(Protocol):
    """One client's place."""

    @property
    def client(self) -> int:
        """The number of the client."""

    @property
    def training(self) -> Own:
        """Settings of `training` that are the node's own: where it computes, with how many threads."""

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
    training: Own = ()

    def shard(self, task: Task) -> Shard:  # noqa: ARG002 - the same for all tasks
        """Cut it out of the file."""
        return _shards(self.shards)[self.client]

    def held_out(self, task: Task) -> Images:
        """Return what it trains on: the run itself has the test images."""
        return self.shard(task).images

    def memories(self, run: str) -> Memories:
        """Find them in the run's directory."""
        return Memories(InnerPath(Path(run).parent) / Path(run).name)

    def settle(self, memories: Memories, counted: int) -> None:
        """Leave it to the run."""


@dataclass(frozen=True)
class Deployed:
    """A SuperNode: its owner gave it the client's number, its data, a place on its disk, and what it computes with."""

    client: int
    memory: Path
    data: Data | None = None
    training: Own = ()

    def shard(self, task: Task) -> Shard:
        """Return the images, with labels counted by the federation's classes."""
        images, classes = self._images(task.experiment)
        return Shard(self.client, relabelled(images, classes, task.classes))

    def held_out(self, task: Task) -> Images:
        """Return its own test images; of a known data set, its part of the training images."""
        if self.data is None:
            return self.shard(task).images
        dataset = self.data.load()
        return relabelled(dataset.test, dataset.classes, task.classes)

    def memories(self, run: str) -> Memories:
        """Find them on the node's own disk."""
        if not re.fullmatch(r"[0-9a-f]{32}", run):
            raise UserError(f"'{run}' is no name of a run")
        return Memories(InnerPath(self.memory) / run)

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
        dataset = self.data.load()
        return dataset.train, dataset.classes


def find_node(config: Config) -> Node:
    """Return the node of that configuration."""
    if "client" in config:
        return deployed(config)
    if "partition-id" in config and (home := os.environ.get(HOME)):
        return Simulated(int(config["partition-id"]), f"{home}/{SHARDS}")
    raise UserError(f"the node does not say which client it is: start it with --node-config 'client=0 …', not {config}")


@contextmanager
def private_files(config: Config) -> Iterator[None]:
    """Let what a deployed node writes be readable by its own user alone; a simulation follows the run's user."""
    before = os.umask(0o077)
    if "client" not in config:
        os.umask(before)
    try:
        yield
    finally:
        os.umask(before)


SETTINGS = ("client", "data", "data.…", "device", "threads", "memory")
"""What the owner of a node can say of it."""


def deployed(config: Config) -> Deployed:
    """Return the node that its owner described so."""
    data = {key: value for key, value in config.items() if key == "data" or key.startswith("data.")}
    training = {key: config[key] for key in ("device", "threads") if key in config}
    known = {"client", "memory", "partition-id", "num-partitions", *data, *training}
    if unknown := config.keys() - known:
        raise UserError(f"unknown in --node-config: {', '.join(sorted(unknown))}; there are {', '.join(SETTINGS)}")
    client = config["client"]
    if not isinstance(client, int) or client < 0:
        raise UserError(f"client={client!r}: a client is a whole number from 0 on")
    if "data.augment" in data:
        raise UserError("data.augment is the experiment's, the same for all clients: leave it out of --node-config")
    memory = Path(str(config.get("memory", DEFAULT_MEMORY))).expanduser()
    return Deployed(client, memory, _own_data(data) if data else None, _own_training(training))


def _own_data(config: Config) -> Data:
    return DATA.parse(read_overrides([f"{key}={value}" for key, value in config.items()])["data"])


def _own_training(config: Config) -> Own:
    """Return where the node computes, or refuse what it does not have."""
    threads, device = config.get("threads", 1), config.get("device", "cpu")
    if not isinstance(threads, int) or threads < 1:
        raise UserError(f"threads={threads!r}: a whole number from 1 on")
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, TypeError) as error:
        raise UserError(f"device={device!r}: {str(error).splitlines()[0]}") from error
    return tuple(config.items())


@lru_cache(maxsize=1)
def _shards(path: str) -> Shards:
    """Return all clients' shards as views of the file, which the processes of this machine share."""
    tensors = load_tensors(Path(path))
    return Shards(Images(tensors["pixels"], tensors["labels"]), tensors["order"], tensors["bounds"])
