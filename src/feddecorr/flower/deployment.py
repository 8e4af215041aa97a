"""A connection to clients on Flower's SuperNodes: each holds its own images, and remembers on its own disk."""

from __future__ import annotations

import json
import secrets
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import reduce
from operator import add
from pathlib import Path

from flwr.app import MessageType, RecordDict
from flwr.serverapp import Grid

from feddecorr.collapse.diagnosis import Diagnosis
from feddecorr.config.experiment import Experiment
from feddecorr.config.options import RunOptions
from feddecorr.core.client_memory import Memories
from feddecorr.core.evidence import Evidence
from feddecorr.core.files import read_json, reading, write_json
from feddecorr.core.messages import Broadcast, Failure, Server, Update
from feddecorr.core.wire import to_bytes
from feddecorr.data.dataset import Dataset
from feddecorr.errors import RunError, UserError
from feddecorr.flower.answers import read_answer, read_evidence
from feddecorr.flower.client_keys import ClientKeys
from feddecorr.flower.engine import Flower
from feddecorr.flower.envelope import largest_answer, seal, wrap
from feddecorr.flower.exchange import Answer, Exchange
from feddecorr.flower.introduction import Introduction, common_classes, federation_of, misfits
from feddecorr.flower.nodes import PAUSE, Nodes
from feddecorr.runs.directory import RunDirectory
from feddecorr.server.federation import RunClients

LARGEST_EVIDENCE = 1 << 30
"""Bytes of a client's statistics; 8 000 features have half of that."""

KEY = "run.json"
"""Where a run keeps the name under which nodes keep what their clients remember, and what clients said at its start."""


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
        say: Callable[[str], None],
    ) -> None:
        """Hear what clients hold: all of them or, under `missing=continue`, those that can take part."""
        self._experiment = experiment
        self._directory = RunDirectory(out)
        self._say = say
        engine = options.engine if isinstance(options.engine, Flower) else Flower()
        self._wait, self._timeout = engine.wait, engine.timeout
        self._keys = ClientKeys(grid, self._directory.memories.directory, authenticated=engine.authenticated)
        self._nodes = Nodes(grid, experiment, say, self._keys)
        self._exchange = Exchange(grid)
        self._wanted = int(bool(options.evaluation.clients) and test is None)
        begun = self._begun()
        self._introductions = self._first_introductions(test) if begun is None else begun
        self._nodes.begin(self._introductions)
        federation = federation_of(experiment, self._introductions, test)
        task = replace(federation.task, device=options.device, evaluation=options.evaluation)
        self.federation = replace(federation, task=task)
        if begun is not None:
            self._nodes.wait_for(begun, self._wait)

    def _first_introductions(self, test: Dataset | None) -> dict[int, Introduction]:
        """Return what clients say before the first round, of which the model is made; say what it will be made for."""
        found = self._nodes.gather(self._wait)
        for client, why in misfits(found, test).items():
            if self._experiment.missing == "fail":
                raise RunError(f"client {client} cannot take part: {why}")
            self._nodes.reasons[client] = why
            del found[client]
        if len(found) < self._experiment.minimum_clients:
            raise RunError(f"of {len(found)} clients that can take part no model can be made")
        for client, why in sorted(self._nodes.reasons.items()):
            self._say(f"the run begins without client {client}: {why}")
        self._say_classes(found)
        return found

    def _say_classes(self, introductions: Mapping[int, Introduction]) -> None:
        """Say which classes the model will have, and which of them hang on a single client."""
        classes = common_classes([each.classes for each in introductions.values()])
        self._say(f"the model has {len(classes)} classes: {', '.join(classes)}")
        owners = Counter(name for each in introductions.values() for name in each.classes)
        for client, each in introductions.items():
            if alone := [name for name in each.classes if owners[name] == 1]:
                self._say(f"only client {client} has {', '.join(alone)}")

    def _begun(self) -> dict[int, Introduction] | None:
        """Return what clients said when the run in the directory began; None if it has not begun."""
        file = self._directory.memories.directory / KEY
        if not file.exists():
            return None
        with reading(file):
            told = [Introduction.from_bytes(json.dumps(each).encode()) for each in read_json(file)["introductions"]]
        return {each.client: each for each in told}

    @contextmanager
    def open(self, memories: Memories) -> Iterator[RunClients]:
        """Give the run a name, under which nodes keep what their clients remember."""
        file = memories.directory / KEY
        if not file.exists():
            memories.directory.make()
            told = [json.loads(each.to_bytes()) for each in self._introductions.values()]
            write_json(file, {"run": secrets.token_hex(16), "introductions": told})
        self._keys.keep()
        note = {"task": json.dumps(self.federation.task.to_dict()), "run": str(read_json(file)["run"])}

        def run_clients(broadcast: Broadcast, clients: Sequence[int]) -> Iterator[Update | Failure]:
            finished: dict[int, Update | Failure] = {}
            answers = self._ask(note, broadcast, clients)
            for client in clients:
                while client not in finished:
                    answer = next(answers)
                    finished[answer.client] = answer
                yield finished.pop(client)

        yield run_clients

    def _ask(self, note: dict[str, str], broadcast: Broadcast, clients: Sequence[int]) -> Iterator[Update | Failure]:
        """Yield one answer for each client as they come, all of them before the time of the round is over.

        Who is not connected is waited for if the run ends without it, and else left out at once.
        """
        number, counted = broadcast.round, self._counted()
        wait = self._wait if self._experiment.missing == "fail" else 0.0
        met = self._nodes.wait_for(clients, wait)
        for client in clients:
            if client not in met:
                why = self._nodes.reasons.get(client, f"its node was not connected, for {wait:g} seconds")
                yield Failure(number, client, why)
        content = to_bytes(broadcast)
        wrapped = wrap(content)
        asked = {met[client].node: client for client in clients if client in met}
        questions = {}
        for node, client in asked.items():
            last = counted.get(client, 0)
            who = {"client": client, "round": number, "before": last + 1, "counted": last, "evidence": self._wanted}
            questions[node] = seal(wrapped, {**note, **who})
        for answer in self._converse(questions, MessageType.TRAIN, largest_answer(len(content))):
            yield self._read(answer, number, asked[answer.node])

    def _converse(self, questions: Mapping[int, RecordDict], kind: str, limit: int) -> Iterator[Answer]:
        return self._exchange.converse(questions, kind, limit=limit, pause=PAUSE, timeout=self._timeout)

    def evaluate(self, number: int, server: Server) -> Diagnosis | None:
        """Merge what the connected clients find out about the global model, in their order."""
        met = self._nodes.wait_for(range(self._experiment.clients), 0.0)
        wrapped = wrap(to_bytes(Broadcast(number, server.weights, server.buffers, {})))
        note: dict[str, str | int] = {"task": json.dumps(self.federation.task.to_dict()), "round": number}
        questions = {met[client].node: seal(wrapped, {**note, "client": client}) for client in sorted(met)}
        found: dict[int, Evidence] = {}
        for answer in self._converse(questions, MessageType.EVALUATE, LARGEST_EVIDENCE):
            try:
                found[answer.node] = read_evidence(answer, self.federation.task.width)
            except UserError as error:
                self._say(f"node {answer.node} did not evaluate round {number}: {error}")
        merged = [found[node] for node in questions if node in found]
        try:
            return reduce(add, merged).diagnosis() if merged else None
        except UserError as error:
            self._say(f"round {number} is not evaluated: {error}")
            return None

    def _read(self, answer: Answer, number: int, client: int) -> Update | Failure:
        if answer.letter is None:
            return Failure(number, client, f"node {answer.node}: {answer.cause}")
        return read_answer(answer.letter.content, str(answer.letter.note.get("kind")), number=number, client=client)

    def _counted(self) -> dict[int, int]:
        """Return the last round of each client in which its update was taken."""
        return {
            client: record.round
            for record in self._directory.all_rounds()
            for client in record.clients
            if client not in record.missing
        }
