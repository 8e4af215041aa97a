"""A node: its client's images and state, where the node's owner configured them, and the files it leaves on disk."""

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
from feddecorr.flower.data_summary import DataSummary, relabelled
from feddecorr.flower.simulation import HOME, SHARDS
from feddecorr.server.federation import Simulation
from feddecorr.training.shards import Shard, Shards
from feddecorr.training.task import Task

DEFAULT_MEMORY = Path("~/.local/state/feddecorr")
"""Where client state is kept, unless the node's configuration says otherwise."""

NodeConfig = Mapping[str, Any]
"""The values of `--node-config`."""

TrainingSettings = tuple[tuple[str, str | int], ...]
"""Settings of `training` by name, hashable."""


class Node(Protocol):
    """Where one client runs."""

    @property
    def client(self) -> int:
        """The number of the client."""

    @property
    def training(self) -> TrainingSettings:
        """The node's own settings of `training`: its device and number of threads."""

    def shard(self, task: Task) -> Shard:
        """Return what the client trains on."""

    def held_out(self, task: Task) -> Images:
        """Return what the client evaluates models on."""

    def memories(self, run: str) -> Memories:
        """Return the client's state in a run."""

    def settle(self, memories: Memories, counted: int) -> None:
        """Drop states that are no longer needed, now that the server has aggregated that round."""


@dataclass(frozen=True)
class SimulatedNode:
    """A node of a simulation: all images are in one file, and the run keeps client state."""

    client: int
    shards: str
    training: TrainingSettings = ()

    def shard(self, task: Task) -> Shard:  # noqa: ARG002 - the same for all tasks
        """Return a view of the file."""
        return _shards(self.shards)[self.client]

    def held_out(self, task: Task) -> Images:
        """Return the training images: the run itself has the test images."""
        return self.shard(task).images

    def memories(self, run: str) -> Memories:
        """Return the state in the run's directory."""
        return Memories(InnerPath(Path(run).parent) / Path(run).name)

    def settle(self, memories: Memories, counted: int) -> None:
        """Leave that to the run."""


@dataclass(frozen=True)
class DeployedNode:
    """A SuperNode, with the client number, data, state folder and device that its owner configured."""

    client: int
    memory: Path
    data: Data | None = None
    training: TrainingSettings = ()

    def shard(self, task: Task) -> Shard:
        """Return the images, with labels numbered by the federation's classes."""
        images, classes = self._images(task.experiment)
        return Shard(self.client, relabelled(images, classes, task.classes))

    def held_out(self, task: Task) -> Images:
        """Return its own test images or, for a public data set, its part of the training images."""
        if self.data is None:
            return self.shard(task).images
        dataset = self.data.load()
        return relabelled(dataset.test, dataset.classes, task.classes)

    def memories(self, run: str) -> Memories:
        """Return the state on the node's own disk."""
        if not RUN.fullmatch(run):
            raise UserError(f"'{run}' is not the name of a run")
        return Memories(InnerPath(self.memory) / run)

    def settle(self, memories: Memories, counted: int) -> None:
        """Drop older states."""
        memories.settle([self.client], counted)

    def summarize(self, experiment: Experiment) -> DataSummary:
        """Return what the server has to know about the data: sizes and sums over pixels, no image and no label."""
        images, classes = self._images(experiment)
        height, width, channels = images.pixels.shape[1:]
        known = None if self.data else Simulation(experiment).task
        return DataSummary(
            client=self.client,
            examples=len(images),
            shape=(channels, height, width),
            classes=classes,
            sums=PixelSums.of(images.pixels),
            constants=None if known is None else (known.mean, known.std),
        )

    def _images(self, experiment: Experiment) -> tuple[Images, tuple[str, ...]]:
        """Return images and class names: the node's own, or its part of the experiment's data set."""
        if self.data is None:
            simulation = Simulation(experiment)
            return simulation.shards[self.client].images, simulation.task.classes
        dataset = self.data.load()
        return dataset.train, dataset.classes


def find_node(config: NodeConfig) -> Node:
    """Return the node of a configuration."""
    if "client" in config:
        return deployed_node(config)
    if "partition-id" in config and (home := os.environ.get(HOME)):
        return SimulatedNode(int(config["partition-id"]), f"{home}/{SHARDS}")
    raise UserError(f"the node has no client number: start it with --node-config 'client=0 …', not {config}")


@contextmanager
def private_files(config: NodeConfig) -> Iterator[None]:
    """Make the files of a deployed node readable by its own user only; a simulation keeps the run's umask."""
    before = os.umask(0o077)
    if "client" not in config:
        os.umask(before)
    try:
        yield
    finally:
        os.umask(before)


SETTINGS = ("client", "data", "data.…", "device", "threads", "memory")
"""What the owner of a node can configure."""


def deployed_node(config: NodeConfig) -> DeployedNode:
    """Return the SuperNode of a configuration, or raise with what is wrong in it."""
    data = {key: value for key, value in config.items() if key == "data" or key.startswith("data.")}
    training = {key: config[key] for key in ("device", "threads") if key in config}
    known = {"client", "memory", "partition-id", "num-partitions", *data, *training}
    if unknown := config.keys() - known:
        raise UserError(f"unknown in --node-config: {', '.join(sorted(unknown))}; known are {', '.join(SETTINGS)}")
    client = config["client"]
    if not isinstance(client, int) or client < 0:
        raise UserError(f"client={client!r}: a client is a whole number, at least 0")
    if "data.augment" in data:
        raise UserError(
            "data.augment belongs to the experiment and is the same for all clients: leave it out of --node-config"
        )
    memory = Path(str(config.get("memory", DEFAULT_MEMORY))).expanduser()
    return DeployedNode(client, memory, _own_data(data) if data else None, _own_training(training))


def _own_data(config: NodeConfig) -> Data:
    return DATA.parse(read_overrides([f"{key}={value}" for key, value in config.items()])["data"])


def _own_training(config: NodeConfig) -> TrainingSettings:
    """Return the node's device and threads; raise if it does not have the device."""
    threads, device = config.get("threads", 1), config.get("device", "cpu")
    if not isinstance(threads, int) or threads < 1:
        raise UserError(f"threads={threads!r}: a whole number, at least 1")
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, TypeError) as error:
        raise UserError(f"device={device!r}: {str(error).splitlines()[0]}") from error
    return tuple(config.items())


@lru_cache(maxsize=1)
def _shards(path: str) -> Shards:
    """Return all clients' shards as views of the file, whose memory the processes of this machine share."""
    tensors = load_tensors(Path(path))
    return Shards(Images(tensors["pixels"], tensors["labels"]), tensors["order"], tensors["bounds"])


RUN = re.compile(r"[0-9a-f]{32}")
STATE = re.compile(r"\d+/\d+\.safetensors")
DECODED = re.compile(r"(folder-[0-9a-f]{16}|hf-[\w-]+)\.safetensors")
"""Decoded pictures of a user's own data in the cache; public data sets have other names."""


def find_files(memory: Path, cache: Path) -> Iterator[Path]:
    """Yield the files that nodes left: client state, `RUN/CLIENT/ROUND.safetensors`, and decoded pictures."""
    for run in _named(memory, RUN):
        for file in sorted(run.glob("*/*")):
            if STATE.fullmatch(str(file.relative_to(run))) and _is_plain(file, below=run):
                yield file
    yield from (file for file in _named(cache, DECODED) if _is_plain(file, below=cache))


def remove_files(files: list[Path], memory: Path) -> None:
    """Remove the files, and the folders of runs and clients that become empty."""
    for file in files:
        file.unlink()
        for folder in (file.parent, file.parent.parent):
            if memory in folder.parents and not any(folder.iterdir()):
                folder.rmdir()


def _named(folder: Path, name: re.Pattern[str]) -> list[Path]:
    return sorted(path for path in folder.iterdir() if name.fullmatch(path.name)) if folder.is_dir() else []


def _is_plain(file: Path, *, below: Path) -> bool:
    """Return whether it is a file at the place that its name says, not a link to elsewhere."""
    return file.is_file() and file.resolve() == below.resolve() / file.relative_to(below) and not below.is_symlink()
