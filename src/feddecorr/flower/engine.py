"""Flower as an engine: its simulation runs clients in Ray actors. An optional extra."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING

from pydantic import Field, PositiveFloat, PositiveInt

from feddecorr.core.randomness import parallel_jobs
from feddecorr.engines.engine import Engine
from feddecorr.errors import UserError
from feddecorr.flower.simulation import start_simulation
from feddecorr.server.federation import RunClients

if TYPE_CHECKING:
    from feddecorr.core.client_memory import Memories
    from feddecorr.training.shards import Shards
    from feddecorr.training.task import Task

NEEDED = ("flwr", "ray", "psutil")


class Flower(Engine):
    """Runs clients on Flower: simulated on this machine, or deployed on SuperNodes ('feddecorr flower app')."""

    batches_clients = False

    workers: PositiveInt | None = Field(None, description="Ray actors; by default cores over training.threads")
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
        with start_simulation(shards, self.parallel_jobs(task.experiment.training.threads)) as simulation:
            yield simulation.run_clients(task, memories)

    def parallel_jobs(self, threads: int) -> int:
        """As many as there are actors."""
        return self.workers or parallel_jobs(threads)
