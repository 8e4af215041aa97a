"""Message handlers of a node: from the bytes of a message to the bytes of a reply."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import lru_cache

from feddecorr.config.experiment import Experiment
from feddecorr.core.evidence import Evidence
from feddecorr.core.messages import Broadcast, Update, failure, from_bytes, to_bytes
from feddecorr.core.randomness import threads
from feddecorr.core.states import State, load_into
from feddecorr.core.trust import STRANGER
from feddecorr.engines.allocator import keep_freed_memory
from feddecorr.errors import UserError
from feddecorr.flower.node import Node, NodeConfig, TrainingSettings, deployed_node, find_node, private_files
from feddecorr.flower.payload import Payload
from feddecorr.training.client import Client
from feddecorr.training.client_round import METHOD
from feddecorr.training.task import Task

LOST_STATE = "it has lost its state of round {}"


def train(payload: Payload, node_config: NodeConfig) -> tuple[str, bytes]:
    """Train as the node's client; return the kind and the bytes of the reply."""
    number, client = int(payload.config["round"]), int(payload.config["client"])
    try:
        with private_files(node_config):
            return "update", to_bytes(_train(payload, find_node(node_config)))
    except Exception as error:  # any client error is reported, not swallowed
        return "failure", to_bytes(failure(number, client, error))


def evaluate(payload: Payload, node_config: NodeConfig) -> tuple[str, bytes]:
    """Evaluate the global model on the node's own images; return the kind and the bytes of the reply."""
    number, client = int(payload.config["round"]), int(payload.config["client"])
    try:
        with private_files(node_config):
            node, sent = find_node(node_config), from_bytes(Broadcast, payload.content)
            task = _task(str(payload.config["task"]), node.training)
            return "evidence", _evidence(task, node, {**sent.weights, **sent.buffers}).to_bytes()
    except Exception as error:  # any client error is reported, not swallowed
        return "failure", to_bytes(failure(number, client, error))


def _evidence(task: Task, node: Node, state: State) -> Evidence:
    model = task.build_model()
    load_into(model, state)
    batches = map(task.inputs, node.held_out(task).split(task.evaluation.batch))
    with threads(task.experiment.training.threads):
        return Evidence.of(model, batches)


def query(payload: Payload, node_config: NodeConfig) -> tuple[str, bytes]:
    """Summarize the node's data; return the kind and the bytes of the reply."""
    try:
        with private_files(node_config):
            node = deployed_node(node_config)
            experiment = Experiment.parse(json.loads(payload.content), STRANGER)
            return "data_summary", node.summarize(experiment).to_bytes()
    except Exception as error:  # the server has to report any problem of the node
        return "failure", to_bytes(failure(0, int(node_config.get("client", -1)), error))


HANDLERS = {"query": query, "evaluate": evaluate, "train": train}
"""The handlers by Flower's message type."""


def _train(payload: Payload, node: Node) -> Update:
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
    node.settle(memories, counted)
    return update


def _require_optional_state(client: Client, memory: State, counted: int) -> None:
    """Raise if the server's state contains a share of the lost client state, which could never be removed again."""
    method = client.task.experiment.method
    if not method.state_optional and any(name.startswith(METHOD) for name in memory):
        raise UserError(f"{LOST_STATE.format(counted)}, without which {type(method).__name__} cannot continue")


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
