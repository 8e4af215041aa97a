"""The ServerApp of a deployed federation: an ordinary run whose clients and their images are on SuperNodes."""

from __future__ import annotations

import json
import logging
import secrets
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any

from flwr.app import Context, MessageType, RecordDict
from flwr.serverapp import Grid, ServerApp

from feddecorr.collapse.diagnosis import Diagnosis
from feddecorr.config.experiment import Experiment
from feddecorr.config.overrides import read_overrides
from feddecorr.core.checks import printable
from feddecorr.core.client_memory import Memories
from feddecorr.core.evidence import Evidence
from feddecorr.core.files import read_json, reading, write_json
from feddecorr.core.messages import Broadcast, Failure, Server, Update, from_bytes, to_bytes
from feddecorr.data import DATA
from feddecorr.data.dataset import Dataset
from feddecorr.errors import RunError, UserError
from feddecorr.flower.connected_nodes import POLL_INTERVAL, ClientKeys, ConnectedNodes
from feddecorr.flower.data_summary import DataSummary, common_classes, federation_of, misfits
from feddecorr.flower.engine import Flower, in_order, read_reply
from feddecorr.flower.exchange import Exchange, Reply
from feddecorr.flower.payload import pack, reply_limit, to_arrays
from feddecorr.runs.directory import RunDirectory
from feddecorr.runs.pipeline import ensure
from feddecorr.runs.record import Record
from feddecorr.server.federation import RunClients
from feddecorr.settings.flat import parse_settings
from feddecorr.settings.options import RunOptions
from feddecorr.settings.short_keys import read_settings

MAX_EVIDENCE = 1 << 30
"""Size limit of a client's evidence in bytes; 8 000 features need half of that."""

RUN_FILE = "run.json"
"""Holds the name under which nodes keep their clients' states of the run, and the data summaries at its start."""

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Start or resume the run of the app's `experiment`, `out` and `test`; finished rounds are not repeated.

    Other entries override the experiment like arguments on the command line, so `flwr run --run-config` can.
    """
    config: dict[str, Any] = dict(context.run_config)
    document, out, test_name = config.pop("experiment"), Path(config.pop("out")), config.pop("test", "")
    words = [f"{name}={value}" for name, value in config.items()]
    experiment, options = parse_settings(read_settings(words, json.loads(document)))
    if RunDirectory(out).is_done(experiment, options):
        log(f"{out} already has all {options.rounds} rounds")
        return
    test = DATA.parse(read_overrides([f"data={test_name}"])["data"]).load() if test_name else None
    connection = Deployment(grid, experiment, options, out, test=test, log=log)
    for record in ensure(experiment, options, out, through=connection):
        log(_summary(record, options.rounds))
    log(f"{out} is done")


def log(text: str) -> None:
    """Write to Flower's log, which `flwr run --stream` shows."""
    logging.getLogger("flwr").info("feddecorr: %s", text)


def _summary(record: Record, rounds: int) -> str:
    parts = [f"round {record.round} of {rounds}", f"{record.seconds:.1f} s"]
    if record.accuracy is not None:
        parts.append(f"accuracy {100 * record.accuracy:.1f} %")
    parts += [f"{name} {value:.4f}" for name, value in record.terms.items()]
    parts += [f"without client {client} ({why})" for client, why in record.missing.items()]
    parts += [f"client {client}: {note}" for client, note in record.notes.items()]
    return ", ".join(parts)


class Deployment:
    """The server's side of a federation on Flower, for one run directory."""

    def __init__(
        self,
        grid: Grid,
        experiment: Experiment,
        options: RunOptions,
        out: Path,
        *,
        test: Dataset | None,
        log: Callable[[str], None],
    ) -> None:
        """Collect the data summaries: of all clients or, under `missing=continue`, of those that can participate."""
        self._experiment = experiment
        self._directory = RunDirectory(out)
        self._log = log
        self._engine = engine = options.engine if isinstance(options.engine, Flower) else Flower()
        self._keys = ClientKeys(grid, self._directory.memories.directory, authenticated=engine.authenticated)
        self._nodes = ConnectedNodes(grid, experiment, log, self._keys)
        self._exchange = Exchange(grid)
        self._wants_evidence = int(bool(options.evaluation.clients) and test is None)
        saved = self._load_summaries()
        self._summaries = self._gather_summaries(test) if saved is None else saved
        self._nodes.begin(self._summaries)
        federation = federation_of(experiment, self._summaries, test)
        task = replace(federation.task, device=options.device, evaluation=options.evaluation)
        self.federation = replace(federation, task=task)
        if saved is not None:
            self._nodes.wait_for(saved, self._engine.wait)

    def _gather_summaries(self, test: Dataset | None) -> dict[int, DataSummary]:
        """Return the summaries before the first round, which define the model; log what it will look like."""
        found = self._nodes.gather(self._engine.wait)
        for client, why in misfits(found, test).items():
            if self._experiment.missing == "fail":
                raise RunError(f"client {client} cannot participate: {why}")
            self._nodes.reasons[client] = why
            del found[client]
        if len(found) < self._experiment.minimum_clients:
            raise RunError(f"{len(found)} clients can participate, too few to begin")
        for client, why in sorted(self._nodes.reasons.items()):
            self._log(f"the run begins without client {client}: {why}")
        self._log_classes(found)
        self._log_majority(found)
        return found

    def _log_classes(self, summaries: Mapping[int, DataSummary]) -> None:
        """Log the model's classes, and those that only a single client has."""
        classes = common_classes([each.classes for each in summaries.values()])
        self._log(f"the model has {len(classes)} classes: {', '.join(classes)}")
        owners = Counter(name for each in summaries.values() for name in each.classes)
        for client, each in summaries.items():
            if alone := [name for name in each.classes if owners[name] == 1]:
                self._log(f"only client {client} has {', '.join(alone)}")

    def _log_majority(self, summaries: Mapping[int, DataSummary]) -> None:
        """Log a client that reports more examples than all others: all means and the normalisation follow it."""
        total = sum(each.examples for each in summaries.values())
        for client, each in summaries.items():
            if len(summaries) > 1 and 2 * each.examples > total:
                self._log(f"client {client} reports {each.examples} of all {total} examples: means follow it alone")

    def _load_summaries(self) -> dict[int, DataSummary] | None:
        """Return the summaries with which the run in the directory began; None if it has not begun."""
        file = self._directory.memories.directory / RUN_FILE
        if not file.exists():
            return None
        with reading(file):
            saved = [DataSummary.from_bytes(json.dumps(each).encode()) for each in read_json(file)["data_summaries"]]
        return {each.client: each for each in saved}

    @contextmanager
    def open(self, memories: Memories) -> Iterator[RunClients]:
        """Name the run, for the states that nodes keep of it."""
        file = memories.directory / RUN_FILE
        if not file.exists():
            memories.directory.make()
            summaries = [asdict(each) for each in self._summaries.values()]
            write_json(file, {"run": secrets.token_hex(16), "data_summaries": summaries})
        self._keys.save()
        config = {"task": json.dumps(self.federation.task.to_dict()), "run": str(read_json(file)["run"])}
        yield lambda broadcast, clients: in_order(self._train(config, broadcast, clients), clients)

    def _train(
        self, config: dict[str, str], broadcast: Broadcast, clients: Sequence[int]
    ) -> Iterator[Update | Failure]:
        """Yield one answer for each client as they come, all of them before the round's timeout.

        A client that is not connected is waited for if the run would end without it, and otherwise left out at once.
        """
        number, counted = broadcast.round, self._counted()
        wait = self._engine.wait if self._experiment.missing == "fail" else 0.0
        nodes = self._nodes.wait_for(clients, wait)
        for client in clients:
            if client not in nodes:
                absent = f"its node did not connect within {wait:g} seconds" if wait else "its node was not connected"
                yield Failure(number, client, self._nodes.reasons.get(client, absent))
        content = to_bytes(broadcast)
        arrays = to_arrays(content)
        asked = {nodes[client].node: client for client in clients if client in nodes}
        messages = {}
        for node, client in asked.items():
            last = counted.get(client, 0)
            rounds = {"round": number, "before": last + 1, "counted": last}
            messages[node] = pack(arrays, {**config, "client": client, **rounds, "evidence": self._wants_evidence})
        for reply in self._send_and_receive(messages, MessageType.TRAIN, reply_limit(len(content))):
            yield self._read(reply, number, asked[reply.node])

    def _send_and_receive(self, messages: Mapping[int, RecordDict], kind: str, limit: int) -> Iterator[Reply]:
        return self._exchange.send_and_receive(
            messages, kind, limit=limit, interval=POLL_INTERVAL, timeout=self._engine.timeout
        )

    def evaluate(self, number: int, server: Server) -> Diagnosis | None:
        """Merge the connected clients' evidence on the global model, in the order of the clients."""
        nodes = self._nodes.wait_for(range(self._experiment.clients), 0.0)
        arrays = to_arrays(to_bytes(Broadcast(number, server.weights, server.buffers, {})))
        config: dict[str, str | int] = {"task": json.dumps(self.federation.task.to_dict()), "round": number}
        messages = {nodes[client].node: pack(arrays, {**config, "client": client}) for client in sorted(nodes)}
        found: dict[int, Evidence] = {}
        for reply in self._send_and_receive(messages, MessageType.EVALUATE, MAX_EVIDENCE):
            try:
                found[reply.node] = _read_evidence(reply, self.federation.task.width)
            except UserError as error:
                self._log(f"node {reply.node} did not evaluate round {number}: {error}")
        merged = [found[node] for node in messages if node in found]
        try:
            return reduce(add, merged).diagnosis() if merged else None
        except UserError as error:
            self._log(f"round {number} is not evaluated: {error}")
            return None

    def _read(self, reply: Reply, number: int, client: int) -> Update | Failure:
        if reply.payload is None:
            return Failure(number, client, f"node {reply.node}: {reply.cause}")
        return read_reply(reply.payload.content, str(reply.payload.config.get("kind")), number=number, client=client)

    def _counted(self) -> dict[int, int]:
        """Return each client's last round in which its update was aggregated."""
        return {
            client: record.round
            for record in self._directory.all_rounds()
            for client in record.clients
            if client not in record.missing
        }


def _read_evidence(reply: Reply, width: int) -> Evidence:
    """Return a node's evidence on a model with that feature width, or raise with the reason why there is none."""
    if reply.payload is None:
        raise UserError(reply.cause)
    if reply.payload.config.get("kind") != "evidence":
        try:
            cause = from_bytes(Failure, reply.payload.content).cause
        except UserError as error:
            cause = f"its message was refused: {error}"
        raise UserError(printable(cause))
    return Evidence.from_bytes(reply.payload.content, width)
