"""A connection to clients on Flower's SuperNodes: each holds its own images, and remembers on its own disk."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from operator import add
from pathlib import Path

from flwr.app import MessageType
from flwr.serverapp import Grid

from feddecorr.collapse.diagnosis import Diagnosis
from feddecorr.collapse.shared_evidence import Evidence
from feddecorr.data.dataset import Dataset
from feddecorr.engines.engine import RunClients
from feddecorr.engines.flower_simulation import Flower
from feddecorr.errors import UserError
from feddecorr.files import write_json
from feddecorr.flower.answers import read_answer, read_evidence
from feddecorr.flower.envelope import largest_answer, seal, wrap
from feddecorr.flower.exchange import Answer, exchange
from feddecorr.flower.introduction import federation_of
from feddecorr.flower.nodes import PAUSE, Nodes
from feddecorr.messages import Broadcast, Failure, Server, Update
from feddecorr.runs.directory import RunDirectory
from feddecorr.runs.memories import Memories
from feddecorr.settings.experiment import Experiment
from feddecorr.wire import to_bytes

LARGEST_EVIDENCE = 1 << 30
"""Bytes of a client's statistics; 8 000 features have half of that."""

KEY = "run.json"
"""Beside what clients remember: the name under which nodes keep it, where they keep it themselves."""


class Deployment:
    """The server's side of a federation on Flower, for one run directory."""

    def __init__(
        self, grid: Grid, experiment: Experiment, out: Path, *, test: Dataset | None, say: Callable[[str], None]
    ) -> None:
        """Wait for everybody, and hear what they hold."""
        self._experiment = experiment
        self._directory = RunDirectory(out)
        self._say = say
        self._nodes = Nodes(grid, experiment, say)
        self._wanted = int(experiment.evaluation.clients and test is None)
        engine = experiment.engine
        self._wait = engine.wait if isinstance(engine, Flower) else Flower().wait
        self.federation = federation_of(experiment, self._nodes.everybody(self._wait), test)

    @contextmanager
    def open(self, memories: Memories) -> Iterator[RunClients]:
        """Give the run a name, under which nodes keep what their clients remember."""
        file = memories.directory / KEY
        if not file.exists():
            memories.directory.mkdir(parents=True, exist_ok=True)
            write_json(file, {"run": secrets.token_hex(16)})
        note = {"task": json.dumps(self.federation.task.to_dict()), "run": json.loads(file.read_text())["run"]}

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
        """Yield one answer for each client as they come.

        Who is not connected is waited for if the run ends without it, and else left out at once.
        """
        number, counted = broadcast.round, self._counted()
        wait = self._wait if self._experiment.missing == "fail" else 0.0
        met = self._nodes.wait_for(clients, wait)
        for client in clients:
            if client not in met:
                yield Failure(number, client, f"its node was not connected, for {wait:g} seconds")
        content = to_bytes(broadcast)
        wrapped = wrap(content)
        asked = {met[client].node: client for client in clients if client in met}
        questions = {}
        for node, client in asked.items():
            last = counted.get(client, 0)
            who = {"client": client, "round": number, "before": last + 1, "counted": last, "evidence": self._wanted}
            questions[node] = seal(wrapped, {**note, **who})
        limit = largest_answer(len(content))
        for answer in exchange(self._nodes.grid, questions, MessageType.TRAIN, pause=PAUSE, limit=limit):
            yield self._read(answer, number, asked[answer.node])

    def evaluate(self, number: int, server: Server) -> Diagnosis | None:
        """Merge what the connected clients find out about the global model, in their order."""
        met = self._nodes.wait_for(range(self._experiment.clients), 0.0)
        wrapped = wrap(to_bytes(Broadcast(number, server.weights, server.buffers, {})))
        note: dict[str, str | int] = {"task": json.dumps(self.federation.task.to_dict()), "round": number}
        questions = {met[client].node: seal(wrapped, {**note, "client": client}) for client in sorted(met)}
        found: dict[int, Evidence] = {}
        for answer in exchange(self._nodes.grid, questions, MessageType.EVALUATE, pause=PAUSE, limit=LARGEST_EVIDENCE):
            try:
                found[answer.node] = read_evidence(answer)
            except UserError as error:
                self._say(f"node {answer.node} did not evaluate round {number}: {error}")
        merged = [found[node] for node in questions if node in found]
        return reduce(add, merged).diagnosis() if merged else None

    def _read(self, answer: Answer, number: int, client: int) -> Update | Failure:
        if answer.letter is None:
            return Failure(number, client, f"node {answer.node}: {answer.cause}")
        return read_answer(answer.letter.content, str(answer.letter.note.get("kind")), number=number, client=client)

    def _counted(self) -> dict[int, int]:
        """Return the last round of each client in which its update was taken."""
        return {
            client: record.round
            for record in self._directory.rounds()
            for client in record.clients
            if client not in record.missing
        }
