"""A node: it handles messages, bytes to bytes, with its client's images and state, where its owner configured them."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from feddecorr.config.experiment import Experiment
from feddecorr.config.overrides import read_overrides
from feddecorr.core.client_memory import Memories
from feddecorr.core.devices import require
from feddecorr.core.evidence import Evidence
from feddecorr.core.files import load_tensors
from feddecorr.core.messages import Broadcast, failure, from_bytes, to_bytes
from feddecorr.core.paths import InnerPath
from feddecorr.core.randomness import threads
from feddecorr.core.states import State, load_into
from feddecorr.core.trust import STRANGER
from feddecorr.data import DATA
from feddecorr.data.dataset import Data, Images, PixelSums
from feddecorr.engines.processes import keep_freed_memory
from feddecorr.errors import UserError
from feddecorr.flower.data_summary import DataSummary, relabelled
from feddecorr.flower.engine import SHARDS
from feddecorr.flower.payload import HOME, Payload
from feddecorr.server.federation import Simulation
from feddecorr.training.client import METHOD, Client
from feddecorr.training.shards import Shard, Shards
from feddecorr.training.task import Task

DEFAULT_MEMORY = Path("~/.local/state/feddecorr")
"""Where client state is kept, unless the node's configuration says otherwise."""

SETTINGS = ("client", "data", "data.…", "device", "threads", "memory")
"""What the owner of a node can configure."""

NodeConfig = Mapping[str, Any]
"""The values of `--node-config`."""

TrainingSettings = tuple[tuple[str, str | int], ...]
"""A node's own settings of `training` by name, hashable: its device and number of threads."""

LOST_STATE = "it has lost its state of round {}"

RUN = re.compile(r"[0-9a-f]{32}")
STATE = re.compile(r"\d+/\d+\.safetensors")
DECODED = re.compile(r"(folder-[0-9a-f]{16}|hf-[\w-]+)\.safetensors")
"""Decoded pictures of a user's own data in the cache; public data sets have other names."""


def handle(action: str, payload: Payload, node_config: NodeConfig) -> tuple[str, bytes]:
    """Return the kind and the bytes of the reply to a message of Flower's type `action`; any error is a reply, too."""
    number = int(payload.config.get("round", 0))
    client = int(payload.config["client"] if "client" in payload.config else node_config.get("client", -1))
    try:
        with _umask(node_config):
            return HANDLERS[action](payload, find_node(node_config, client))
    except Exception as error:  # the server has to report any problem of the node
        return "failure", to_bytes(failure(number, client, error))


@contextmanager
def _umask(config: NodeConfig) -> Iterator[None]:
    """Make the files of a deployed node readable by its own user only; a simulation keeps the run's umask."""
    before = os.umask(0o077)
    if "client" not in config:
        os.umask(before)
    try:
        yield
    finally:
        os.umask(before)


@dataclass(frozen=True)
class Node:
    """A SuperNode, with the client number, folder for client state, data and device that its owner configured."""

    client: int
    folder: Path
    data: Data | None = None
    training: TrainingSettings = ()

    def shard(self, task: Task) -> Shard:
        """Return the images that it trains on, with labels numbered by the federation's classes."""
        images, classes = self._images(task.experiment)
        return Shard(self.client, relabelled(images, classes, task.classes))

    def held_out(self, task: Task) -> Images:
        """Return its own test images or, for a public data set, its part of the training images."""
        if self.data is None:
            return self.shard(task).images
        dataset = self.data.load()
        return relabelled(dataset.test, dataset.classes, task.classes)

    def memories(self, run: str) -> Memories:
        """Return the client's state in a run, on the node's own disk."""
        if not RUN.fullmatch(run):
            raise UserError(f"'{run}' is not the name of a run")
        return Memories(InnerPath(self.folder) / run)

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


@dataclass(frozen=True)
class SimulatedNode(Node):
    """A node of a simulation: all images are in one file of its folder, and the run keeps client state."""

    def shard(self, task: Task) -> Shard:  # noqa: ARG002 - the same for all tasks
        """Return a view of the file."""
        return _shards(self.folder / SHARDS)[self.client]

    def memories(self, run: str) -> Memories:
        """Return the state in the run's directory."""
        return Memories(InnerPath(Path(run).parent) / Path(run).name)


@lru_cache(maxsize=1)
def _shards(path: Path) -> Shards:
    """Return all clients' shards as views of the file, whose memory the processes of this machine share."""
    if not path.exists():
        raise UserError(f"{path} is not on this machine: hosts of a cluster need a common folder, set TMPDIR to one")
    tensors = load_tensors(path)
    return Shards(Images(tensors["pixels"], tensors["labels"]), tensors["order"], tensors["bounds"])


def find_node(config: NodeConfig, client: int) -> Node:
    """Return the node of a configuration; in a simulation, the client is that of the message."""
    if "client" in config:
        return _deployed_node(config)
    if home := os.environ.get(HOME):
        return SimulatedNode(client, Path(home))
    raise UserError(f"the node has no client number: start it with --node-config 'client=0 …', not {config}")


def _deployed_node(config: NodeConfig) -> Node:
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
    words = [f"{key}={value}" for key, value in data.items()]
    own_data = DATA.parse(read_overrides(words)["data"]) if data else None
    count, device = config.get("threads", 1), config.get("device", "cpu")
    if not isinstance(count, int) or count < 1:
        raise UserError(f"threads={count!r}: a whole number, at least 1")
    require(str(device))
    folder = Path(str(config.get("memory", DEFAULT_MEMORY))).expanduser()
    return Node(client, folder, own_data, tuple(training.items()))


def _query(payload: Payload, node: Node) -> tuple[str, bytes]:
    experiment = Experiment.parse(json.loads(payload.content), STRANGER)
    return "data_summary", node.summarize(experiment).to_bytes()


def _evaluate(payload: Payload, node: Node) -> tuple[str, bytes]:
    """Evaluate the global model on the node's own images."""
    sent, task = from_bytes(Broadcast, payload.content), _task(str(payload.config["task"]), node.training)
    return "evidence", _evidence(task, node, {**sent.weights, **sent.buffers}).to_bytes()


def _train(payload: Payload, node: Node) -> tuple[str, bytes]:
    """Train from the client's state after an earlier round, and save its state after this one.

    States of round `before` and later are ignored; `counted` is the client's last round that the server aggregated, if
    it knows. Whatever the client did since then is discarded.
    """
    config = payload.config
    number, counted = int(config["round"]), int(config["counted"])
    if config["client"] != node.client:
        raise UserError(f"client {node.client} received a message for client {config['client']}")
    client = _client(str(config["task"]), node.training)
    memories = node.memories(str(config["run"]))
    loaded = memories.load(node.client, int(config["before"]))
    update, memory = client(from_bytes(Broadcast, payload.content), node.shard(client.task), loaded)
    if counted and memory and not loaded:
        _require_optional_state(client, memory, counted)
        update = replace(update, note=f"{LOST_STATE.format(counted)}, and started afresh")
    if config["evidence"]:
        evidence = _evidence(client.task, node, {**update.weights, **update.buffers})
        update = replace(update, evidence=evidence.to_state())
    memories.save(node.client, number, memory)
    memories.settle([node.client], counted)
    return "update", to_bytes(update)


HANDLERS: dict[str, Callable[[Payload, Node], tuple[str, bytes]]] = {
    "query": _query,
    "evaluate": _evaluate,
    "train": _train,
}
"""The handlers by Flower's message type."""


def _require_optional_state(client: Client, memory: State, counted: int) -> None:
    """Raise if the server's state contains a share of the lost client state, which could never be removed again."""
    method = client.task.experiment.method
    if not method.state_optional and any(name.startswith(METHOD) for name in memory):
        raise UserError(f"{LOST_STATE.format(counted)}, without which {type(method).__name__} cannot continue")


def _evidence(task: Task, node: Node, state: State) -> Evidence:
    model = task.build_model()
    load_into(model, state)
    batches = map(task.inputs, node.held_out(task).split(task.evaluation.batch))
    with threads(task.experiment.training.threads):
        return Evidence.of(model, batches)


@lru_cache(maxsize=1)
def _client(task: str, training: TrainingSettings) -> Client:
    keep_freed_memory()
    return Client(_task(task, training))


def _task(document: str, settings: TrainingSettings) -> Task:
    """Return the task with the node's own training settings in place of the experiment's."""
    task = Task.from_dict(json.loads(document))
    own = dict(settings)
    device = str(own.pop("device", task.device))
    training = task.experiment.training.model_copy(update=own)
    return replace(task, experiment=task.experiment.model_copy(update={"training": training}), device=device)


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
