"""A client on a node: from the bytes of a broadcast to the bytes of an update."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import lru_cache

from feddecorr.config.experiment import Experiment
from feddecorr.core.evidence import Evidence
from feddecorr.core.messages import Broadcast, Update, failure
from feddecorr.core.states import State, load_into
from feddecorr.core.threads import threads
from feddecorr.core.trust import STRANGER
from feddecorr.core.wire import from_bytes, to_bytes
from feddecorr.engines.allocator import keep_freed_memory
from feddecorr.errors import UserError
from feddecorr.flower.envelope import Letter
from feddecorr.flower.node import Config, Node, Own, deployed, find_node, private_files
from feddecorr.training.client import Client
from feddecorr.training.client_round import METHOD
from feddecorr.training.task import Task

FORGOT = "it has lost what it remembered of round {}"


def train(letter: Letter, config: Config) -> tuple[str, bytes]:
    """Train as the node's client; return the kind of the answer and its bytes."""
    number, client = int(letter.note["round"]), int(letter.note["client"])
    try:
        with private_files(config):
            return "update", to_bytes(_train(letter, find_node(config)))
    except Exception as error:  # whatever a client raises is reported, not swallowed
        return "failure", to_bytes(failure(number, client, error))


def evaluate(letter: Letter, config: Config) -> tuple[str, bytes]:
    """Find out about the global model on images of the node's own; return the kind of the answer and its bytes."""
    number, client = int(letter.note["round"]), int(letter.note["client"])
    try:
        with private_files(config):
            node, sent = find_node(config), from_bytes(Broadcast, letter.content)
            task = _task(str(letter.note["task"]), node.training)
            return "evidence", _look(task, node, {**sent.weights, **sent.buffers}).to_bytes()
    except Exception as error:  # whatever a client raises is reported, not swallowed
        return "failure", to_bytes(failure(number, client, error))


def _look(task: Task, node: Node, state: State) -> Evidence:
    model = task.build_model()
    load_into(model, state)
    batches = map(task.inputs, node.held_out(task).split(task.evaluation.batch))
    with threads(task.experiment.training.threads):
        return Evidence.of(model, batches)


def introduce(letter: Letter, config: Config) -> tuple[str, bytes]:
    """Say what the node holds; return the kind of the answer and its bytes."""
    try:
        with private_files(config):
            node = deployed(config)
            experiment = Experiment.parse(json.loads(letter.content), STRANGER)
            return "introduction", node.introduce(experiment).to_bytes()
    except Exception as error:  # whatever is wrong with the node, the server has to say
        return "failure", to_bytes(failure(0, int(config.get("client", -1)), error))


QUESTIONS = {"introduce": introduce, "evaluate": evaluate, "train": train}
"""What a node can be asked."""


def _train(letter: Letter, node: Node) -> Update:
    """Train from what the client remembered when an earlier round ended, and keep what it remembers after this one.

    `before` is the round that has to be earlier; `counted` the last one of the client that the server counted, if
    it knows: whatever the client did since is as if it had not been.
    """
    number, counted = int(letter.note["round"]), int(letter.note["counted"])
    if letter.note["client"] != node.client:
        raise UserError(f"a message for client {letter.note['client']} came to client {node.client}")
    client = _client(str(letter.note["task"]), node.training)
    memories = node.memories(str(letter.note["run"]))
    remembered = memories.load(node.client, int(letter.note["before"]))
    update, memory = client(from_bytes(Broadcast, letter.content), node.shard(client.task), remembered)
    if counted and memory and not remembered:
        _refuse_if_needed(client, memory, counted)
        update = replace(update, note=f"{FORGOT.format(counted)}, and began anew")
    if letter.note["evidence"]:
        update = replace(update, evidence=_look(client.task, node, {**update.weights, **update.buffers}).to_state())
    memories.save(node.client, number, memory)
    node.settle(memories, counted)
    return update


def _refuse_if_needed(client: Client, memory: State, counted: int) -> None:
    """Raise where the server's state holds a share of what was lost: it would never be taken out again."""
    method = client.task.experiment.method
    if not method.state_optional and any(name.startswith(METHOD) for name in memory):
        raise UserError(f"{FORGOT.format(counted)}, without which {type(method).__name__} cannot go on with it")


@lru_cache(maxsize=1)
def _client(task: str, own: Own) -> Client:
    keep_freed_memory()
    return Client(_task(task, own))


def _task(document: str, own: Own) -> Task:
    """Return the task as it is done on this node: its owner's settings take the place of the experiment's."""
    task = Task.from_dict(json.loads(document))
    settings = dict(own)
    device = str(settings.pop("device", task.device))
    training = task.experiment.training.model_copy(update=settings)
    return replace(task, experiment=task.experiment.model_copy(update={"training": training}), device=device)
