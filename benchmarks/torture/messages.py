"""Whole messages of clients, changed in every field: no traceback, no record that cannot be read, no run that ends.

    python -m benchmarks.torture.messages [--count 10000] [--seed 0] [--roads NAME ...] [--record FILE]

Real runs, in directories, under `missing=continue`: of ten clients, six send what honest clients send, and four send
messages that were changed on purpose: fields of other types, sizes and ranges, names, single numbers of tensors, other
kinds of tensors, second answers, none, and broken bytes. The run must do all its rounds, blame nobody but those four,
and be read again, line by line, to reasons that are short and printable. There are three roads:

- `updates`: what an engine or a connection in Python gives to the server's loop;
- `flower`: what SuperNodes answer, through Flower's own serialization and our reader of its messages;
- `introductions`: the data summaries of SuperNodes, which are accepted, or refused with a sentence.

A median stands behind the validation, because an update of the right form and the wrong content is for it.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from itertools import count as counting
from pathlib import Path
from typing import Any

import torch
from flwr.app import Array, ArrayRecord, ConfigRecord, Error, Message, RecordDict
from flwr.common.serde import message_from_proto, message_to_proto
from flwr.serverapp import Grid
from flwr.supercore.run import Run
from flwr.supercore.task_identity import TaskIdentity

from benchmarks.recording import write_record
from benchmarks.torture.broken_inputs import mutate
from benchmarks.torture.mutations import JSON, change_bytes, change_json, change_update
from benchmarks.torture.small_runs import small_experiment
from feddecorr.collapse.statistics import Moments
from feddecorr.config.experiment import Experiment
from feddecorr.core.checks import LONGEST_TEXT
from feddecorr.core.client_memory import Memories
from feddecorr.core.evidence import Evidence
from feddecorr.core.messages import Broadcast, Failure, Update, from_bytes, to_bytes
from feddecorr.core.states import State
from feddecorr.core.text import parse_json
from feddecorr.data.dataset import PixelSums
from feddecorr.deployment import server_app as deployment
from feddecorr.errors import RunError, UserError
from feddecorr.flower import connected_nodes
from feddecorr.flower.data_summary import DataSummary, federation_of
from feddecorr.flower.payload import BYTES, CONFIG, CONTENT, pack, to_arrays, unpack
from feddecorr.runs.directory import RunDirectory
from feddecorr.runs.pipeline import run
from feddecorr.server.federation import Connection, Federation, RunClients, Simulation
from feddecorr.settings.options import RunOptions

CLIENTS, HOSTILE = 10, 4
ROUNDS = 10
"""Of a run: this many messages are changed for each start of one, times the hostile clients."""

WORDS = [
    f"clients={CLIENTS}", "participation=1", "partition.alpha=100", "missing=continue", f"rounds={ROUNDS}",
    "model=convnet", "model.widths=[2]", "evaluation.epochs=true", "evaluation.clients=true", "evaluation.every=2",
]  # fmt: skip

SERVERS = [
    ["method=fedavg", "transforms=median"],
    ["method=scaffold", "transforms=median"],
    ["method=feddyn", "transforms=trimmed_mean", "transforms.trimmed_mean.share=0.4"],
    ["method=fednova", "transforms=median"],
    ["method=fedadam", "transforms=median"],
]
"""Methods that use all that clients send, behind rules that fewer than half of them cannot move."""

Connect = Callable[[Experiment, Path], "tuple[Hostile | HostileGrid, Connection]"]
"""From an experiment and its directory to who counts the changed messages, and the way to the clients."""


def honest_update(federation: Federation, broadcast: Broadcast, client: int, chance: random.Random) -> Update:
    """Return what an honest client sends, without the training: a small step from what was sent."""
    stream = torch.Generator().manual_seed(chance.randrange(2**31))

    def step(state: State) -> State:
        return {name: each + 0.01 * torch.randn(each.shape, generator=stream) for name, each in state.items()}

    counted = {name: each if each.is_floating_point() else each + 1 for name, each in broadcast.buffers.items()}
    extra = step(broadcast.shared)
    size = int(federation.roster.sizes[client])
    epochs = {"cross_entropy": [1.0]}
    return Update(
        broadcast.round, client, size, 0.05, step(broadcast.weights), counted, extra, {"cross_entropy": 1.0}, epochs
    )


def honest_evidence(width: int) -> Evidence:
    """Return what five samples tell."""
    return Evidence(Moments.of(torch.randn(5, width)), 3)


class Hostile:
    """A connection in Python to clients of whom some send anything."""

    def __init__(self, experiment: Experiment, chance: random.Random) -> None:
        known = _simulation().federation
        self.federation = replace(known, task=replace(known.task, experiment=experiment))
        self._chance = chance
        self.sent = 0

    @contextmanager
    def open(self, memories: Memories) -> Iterator[RunClients]:  # noqa: ARG002 - nobody remembers
        """Play them."""
        yield self._run

    def _run(self, broadcast: Broadcast, clients: Sequence[int]) -> Iterator[Update | Failure]:
        for client in clients:
            update = honest_update(self.federation, broadcast, client, self._chance)
            if client < HOSTILE:
                self.sent += 1
                yield from change_update(self._with_evidence(update), self._chance)
            else:
                yield update

    def _with_evidence(self, update: Update) -> Update:
        if self._chance.random() < 0.8:
            return update
        return replace(update, evidence=honest_evidence(self.federation.task.width).to_state())


class HostileGrid(Grid):
    """Flower's grid in one process: the nodes of hostile clients answer anything to whatever they are asked."""

    def __init__(self, simulation: Simulation, chance: random.Random) -> None:
        TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = 1, 1, 1
        self._simulation, self._chance = simulation, chance
        self._replies: dict[str, Message] = {}
        self._numbers = counting()
        self.sent = 0

    def set_run(self, run: Run) -> None:
        """Do nothing."""

    @property
    def run(self) -> Run:
        """Return a run of no importance."""
        return Run.create_empty(1)

    def create_message(self, *args: Any, **options: Any) -> Message:
        """Refuse: it is deprecated."""
        raise NotImplementedError

    def get_node_ids(self) -> Iterable[int]:
        """Return a node for each client."""
        return range(100, 100 + CLIENTS)

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Let each node answer at once."""
        numbers = []
        for message in messages:
            number = str(next(self._numbers))
            message.metadata.__dict__["_message_id"] = number
            reply = self._reply(message, message.metadata.dst_node_id - 100)
            reply.metadata.__dict__["_message_id"] = "answer"
            self._replies[number] = message_from_proto(message_to_proto(reply))
            numbers.append(number)
        return numbers

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Return the answers."""
        return [self._replies.pop(number) for number in list(message_ids) if number in self._replies]

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:  # noqa: ARG002 - at once
        """Do both."""
        return self.pull_messages(self.push_messages(messages))

    def _reply(self, message: Message, client: int) -> Message:
        kind, content = self._honest(message, client)
        if client >= HOSTILE or kind == "data_summary":
            return Message(pack(to_arrays(content), {"kind": kind}), reply_to=message)
        self.sent += 1
        return self._changed(message, kind, content)

    def _honest(self, message: Message, client: int) -> tuple[str, bytes]:
        federation = self._simulation.federation
        if message.metadata.message_type == "query":
            return "data_summary", data_summary(self._simulation, client).to_bytes()
        broadcast = from_bytes(Broadcast, unpack(message.content, 1 << 30).content)
        if message.metadata.message_type == "train":
            return "update", to_bytes(honest_update(federation, broadcast, client, self._chance))
        return "evidence", honest_evidence(federation.task.width).to_bytes()

    def _changed(self, message: Message, kind: str, content: bytes) -> Message:
        chance = self._chance
        if chance.random() < 0.05:
            reason = chance.choice(["\x1b[2J", "a" * 10**5, "\u202e"])
            return Message(Error(code=chance.choice([0, 5, 2**31 - 1]), reason=reason), reply_to=message)
        content = change_bytes(from_bytes(Update, content), chance) if kind == "update" else mutate(content, chance)
        array = Array(dtype="uint8", shape=(len(content),), stype="safetensors", data=content)
        note: dict[str, Any] = {"kind": kind}
        if chance.random() < 0.2:
            note = {chance.choice(["kind", "x"]): chance.choice(["failure", "\x1b", "k" * 10**4, 7, 1.5, b"x", [1]])}
        records = RecordDict({CONTENT: ArrayRecord({BYTES: array}), CONFIG: ConfigRecord(note)})
        if chance.random() < 0.05:
            records = RecordDict({chance.choice(["\x1b", CONTENT, CONFIG]): ConfigRecord({"x": 1})})
        return Message(records, reply_to=message)


def data_summary(simulation: Simulation, client: int) -> DataSummary:
    """Return what the node of an honest client says of itself."""
    images = simulation.shards[client].images
    sums = PixelSums.of(images.pixels)
    return DataSummary(client, len(images), simulation.task.shape, simulation.task.classes, sums)


def torture_updates(count: int, chance: random.Random, folder: Path) -> dict[str, Any]:
    """Change updates on their way from a connection in Python."""

    def connect(experiment: Experiment, _: RunOptions, __: Path) -> tuple[Hostile, Hostile]:
        connection = Hostile(experiment, chance)
        return connection, connection

    return _torture_runs(count, folder, connect, [])


def torture_flower(count: int, chance: random.Random, folder: Path) -> dict[str, Any]:
    """Change what SuperNodes answer."""
    for module in (connected_nodes, deployment):
        vars(module)["POLL_INTERVAL"] = 0.0
    words = ["engine=flower", "engine.wait=5"]

    def connect(experiment: Experiment, options: RunOptions, out: Path) -> tuple[HostileGrid, Connection]:
        grid = HostileGrid(_simulation(), chance)
        return grid, deployment.Deployment(grid, experiment, options, out, test=None, log=_say)

    return _torture_runs(count, folder, connect, words)


def _say(text: str) -> None:
    if not text.isprintable():
        raise ValueError(f"what is said cannot be printed: {text!r}")


def _torture_runs(
    count: int, folder: Path, connect: Callable[..., tuple[Any, Any]], words: list[str]
) -> dict[str, Any]:
    sent, number, wrong, refused = 0, 0, list[str](), Counter[str]()
    while sent < count:
        settings = small_experiment(*WORDS, *SERVERS[number % len(SERVERS)], *words)
        out = folder / str(number)
        number += 1
        source, connection = connect(*settings, out)
        try:
            for _ in run(*settings, out, through=connection):
                pass
        except BaseException as error:  # that is what is looked for
            if isinstance(error, KeyboardInterrupt):
                raise
            wrong.append(_reported(number, error))
        sent += source.sent
        try:
            refused.update(_read_back(out))
        except Exception as error:  # so is that
            wrong.append(_reported(number, error))
    return {"messages": sent, "runs": number, "refused": refused.total(), "wrong": wrong[:20]}


def _read_back(out: Path) -> list[str]:
    """Read a run again; return the reasons for which clients were left out."""
    for line in (out / "rounds.jsonl").read_bytes().splitlines():
        parse_json(line)
    records = RunDirectory.open(out).rounds()
    if len(records) != ROUNDS:
        raise RunError(f"there are {len(records)} rounds of {ROUNDS}")
    reasons = [why for record in records for why in record.missing.values()]
    if blamed := {client for record in records for client in record.missing if client >= HOSTILE}:
        raise RunError(f"honest clients were left out: {sorted(blamed)}")
    for text in [*reasons, *(note for record in records for note in record.notes.values())]:
        if not text.isprintable() or len(text) > LONGEST_TEXT:
            raise RunError(f"a reason of {len(text)} characters cannot be shown")
    return reasons


def torture_introductions(count: int, chance: random.Random, folder: Path) -> dict[str, Any]:  # noqa: ARG001 - writes nothing
    """Change what nodes say of themselves; what is taken must be of use together with what others say."""
    simulation, experiment = _simulation(), small_experiment(*WORDS)[0]
    others = [data_summary(simulation, client) for client in range(1, CLIENTS)]
    whole = data_summary(simulation, 0).to_bytes()
    wrong, refused = list[str](), 0
    for number in range(count):
        if chance.random() < 0.3:
            content = mutate(whole, chance)
        else:
            content = json.dumps(change_json(json.loads(whole), chance)).encode()
        if chance.random() < 0.02:
            content = json.dumps(chance.choice(JSON)).encode()
        try:
            reported = {each.client: each for each in (DataSummary.from_bytes(content), *others)}
            federation_of(experiment, reported, None)
        except UserError as error:
            refused += 1
            if not str(error).isprintable():
                wrong.append(f"message {number}: {str(error)!r}")
        except Exception as error:  # that is what is looked for
            wrong.append(_reported(number, error))
    return {"messages": count, "refused": refused, "wrong": wrong[:20]}


@cache
def _simulation() -> Simulation:
    experiment, options = small_experiment(*WORDS)
    return Simulation(experiment, evaluation=options.evaluation)


def _reported(number: int, error: BaseException) -> str:
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{number}: {type(error).__name__}: {str(error)[:300]!r} at {Path(last.filename).name}:{last.lineno}"


ROADS = {"updates": torture_updates, "flower": torture_flower, "introductions": torture_introductions}


def main() -> None:
    """Torture, print, and record if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=10_000, help="messages on each road")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--roads", nargs="+", choices=list(ROADS), default=list(ROADS))
    parser.add_argument("--record", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    found = {}
    for road in arguments.roads:
        began = time.process_time()
        with tempfile.TemporaryDirectory() as place:
            torch.manual_seed(arguments.seed)
            found[road] = ROADS[road](arguments.count, random.Random(arguments.seed), Path(place))
        found[road]["seconds"] = round(time.process_time() - began)
        print(f"{road:14} {found[road]}")
    if arguments.record:
        write_record(arguments.record, {"roads": found})
    sys.exit(any(row["wrong"] for row in found.values()))


if __name__ == "__main__":
    main()
