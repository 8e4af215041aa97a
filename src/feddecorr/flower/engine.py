"""Flower's simulation, which runs clients in Ray's actors; an extra of this package."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING

from pydantic import Field, PositiveFloat, PositiveInt

from feddecorr.core.threads import parallel_jobs
from feddecorr.engines.engine import Engine
from feddecorr.errors import UserError
from feddecorr.server.federation import RunClients

if TYPE_CHECKING:
    from feddecorr.core.client_memory import Memories
    from feddecorr.training.shards import Shards
    from feddecorr.training.task import Task

NEEDED = ("flwr", "ray", "psutil")


class Flower(Engine):
    """Runs clients on Flower: on its simulation here, or deployed on its SuperNodes ('feddecorr flower app')."""

    one_by_one = True

    workers: PositiveInt | None = Field(None, description="Ray actors; one for each core (over training.threads)")
    wait: PositiveFloat = Field(600.0, description="seconds to wait for clients whose SuperNodes are not connected")
    timeout: PositiveFloat = Field(
        3600.0, description="seconds that a round of deployed clients takes at most; who has not answered is missing"
    )

    authenticated: bool = Field(
        False,
        description="the SuperLink knows its nodes by their keys (--enable-supernode-auth): a client's number stays "
        "with the key that had it first",
    )

    def check(self) -> None:
        """Refuse to begin without Flower."""
        if missing := [name for name in NEEDED if find_spec(name) is None]:
            raise UserError(f"engine=flower needs {', '.join(missing)}: pip install 'feddecorr[flower]'")

    @contextmanager
    def open(self, task: Task, shards: Shards, memories: Memories) -> Iterator[RunClients]:
        """Start Flower."""
        from feddecorr.flower.session import simulated  # noqa: PLC0415 - an extra

        with simulated(shards, self.parallel_jobs(task.experiment.training.threads)) as session:
            yield session.clients_of(task, memories)

    def parallel_jobs(self, threads: int) -> int:
        """As many as there are actors."""
        return self.workers or parallel_jobs(threads)
