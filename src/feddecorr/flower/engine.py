"""Flower as an engine: its simulation runs clients in Ray actors. An optional extra.

Three processes: this one; the supervisor, which ends everything when this one ends or is killed; and `simulation_app`,
in which Flower's ServerApp drives Ray. They exchange bytes, so neither Flower nor Ray is imported here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from typing import NoReturn

from pydantic import Field, PositiveFloat, PositiveInt

from feddecorr.core.checks import shown
from feddecorr.core.client_memory import Memories
from feddecorr.core.files import save_tensors, write_json
from feddecorr.core.messages import Broadcast, Failure, Update, from_bytes, to_bytes
from feddecorr.core.randomness import parallel_jobs
from feddecorr.engines.engine import Engine
from feddecorr.engines.supervised import Supervised, supervised
from feddecorr.errors import RunError, UserError
from feddecorr.server.federation import RunClients
from feddecorr.training.shards import Shards
from feddecorr.training.task import Task

NEEDED = ("flwr", "ray", "psutil")

HOME = "FEDDECORR_SIMULATION"
"""The environment variable that names the simulation's folder to nodes."""

SHARDS = "shards.safetensors"
"""The file with all clients' images, in the folder of the simulation."""

SIMULATION_APP = "feddecorr.flower.simulation_app"
"""The module that the supervisor runs."""

KINDS: dict[str, type[Update] | type[Failure]] = {"update": Update, "failure": Failure}
"""The replies to a broadcast, by their kind."""


class Flower(Engine):
    """Runs clients on Flower: simulated on this machine, or deployed on SuperNodes ('feddecorr flower app')."""

    batches_clients = False

    workers: PositiveInt | None = Field(None, description="Ray actors; by default cores over training.threads")
    address: str = Field(
        "", description="cluster of Ray to join, such as 10.0.0.1:6379 or auto; by default one starts on this machine"
    )
    wait: PositiveFloat = Field(600.0, description="seconds to wait for clients whose SuperNodes are not connected")
    timeout: PositiveFloat = Field(
        3600.0,
        description="timeout of a round of deployed clients in seconds; clients that have not replied are missing",
    )
    authenticated: bool = Field(
        False,
        description="the SuperLink authenticates nodes (--enable-supernode-auth): a client's number stays with the "
        "first key that had it",
    )

    def check(self) -> None:
        """Raise if Flower or Ray is not installed."""
        if missing := [name for name in NEEDED if find_spec(name) is None]:
            raise UserError(f"engine=flower needs {', '.join(missing)}: pip install 'feddecorr[flower]'")

    @contextmanager
    def open(self, task: Task, shards: Shards, memories: Memories) -> Iterator[RunClients]:
        """Start Flower's simulation."""
        workers = self.parallel_jobs(task.experiment.training.threads)
        with start_simulation(shards, workers, self.address) as simulation:
            yield simulation.run_clients(task, memories)

    def parallel_jobs(self, threads: int) -> int:
        """As many as there are actors."""
        return self.workers or parallel_jobs(threads)


@contextmanager
def start_simulation(shards: Shards, workers: int, address: str = "") -> Iterator[FlowerSimulation]:
    """Start Flower's simulation with a node for each client, in its own folder; leaving the context ends all of it.

    On a cluster, its actors are as many as there are cores, and need that folder, too.
    """
    with supervised(SIMULATION_APP, cluster=bool(address)) as process:
        images = {"pixels": shards.images.pixels, "labels": shards.images.labels}
        save_tensors(process.home / SHARDS, {**images, "order": shards.order, "bounds": shards.bounds})
        federation = {"clients": len(shards), "workers": min(workers, len(shards)), "address": address}
        write_json(process.home / "federation.json", federation)
        process.start()
        yield FlowerSimulation(process)


def _fail(process: Supervised) -> NoReturn:
    """Report an unexpected end, with Flower's own logs."""
    lines = f"Flower's log ends with:\n{process.logs()}"
    raise RunError("Flower's simulation ended before the run did") from RuntimeError(lines)


class FlowerSimulation:
    """The connection to a simulation; it serves one task after another on the same split."""

    def __init__(self, process: Supervised) -> None:
        self._process = process
        self._connection, self.home = process.connection, process.home
        self._pending = 0  # replies that are still to come
        self._receive()  # all nodes are ready

    def run_clients(self, task: Task, memories: Memories) -> RunClients:
        """Return the function that runs the clients of a task, with their states in `memories`."""
        config = {"task": json.dumps(task.to_dict()), "run": str(memories.directory.path.absolute())}
        return partial(self._run, config)

    def _run(self, config: dict[str, str], broadcast: Broadcast, clients: Sequence[int]) -> Iterator[Update | Failure]:
        number = broadcast.round
        while self._pending:  # the last round was not read to its end
            self._next_answer(number)
        now = {"round": number, "before": number, "counted": 0, "evidence": 0}
        request = {"clients": list(clients), "config": {**config, **now}}
        try:
            self._connection.send_bytes(json.dumps(request).encode())
            self._connection.send_bytes(to_bytes(broadcast))
        except OSError:
            _fail(self._process)
        self._pending = len(clients)
        yield from in_order((self._next_answer(number) for _ in clients), clients)

    def _next_answer(self, number: int) -> Update | Failure:
        header, content = json.loads(self._receive()), self._receive()
        self._pending -= 1
        if header["cause"]:
            return Failure(number, header["client"], header["cause"])
        return read_reply(content, header["kind"], number=number, client=header["client"])

    def _receive(self) -> bytes:
        try:
            return self._connection.recv_bytes()
        except (EOFError, OSError):
            _fail(self._process)


def in_order(answers: Iterator[Update | Failure], clients: Sequence[int]) -> Iterator[Update | Failure]:
    """Yield the answers in the order of the clients, whichever comes first."""
    finished: dict[int, Update | Failure] = {}
    for client in clients:
        while client not in finished:
            answer = next(answers)
            finished[answer.client] = answer
        yield finished.pop(client)


def read_reply(content: bytes, kind: str, *, number: int, client: int) -> Update | Failure:
    """Return a client's reply, or a failure that says why it is refused."""
    if kind not in KINDS:
        return Failure(number, client, f"it sent {shown(kind)}, neither an update nor a failure")
    try:
        reply = from_bytes(KINDS[kind], content)
    except UserError as error:
        return Failure(number, client, f"its message was refused: {error}")
    if reply.client != client:
        return Failure(number, client, f"it replied as client {reply.client}")
    return reply
