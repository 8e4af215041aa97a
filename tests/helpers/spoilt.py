"""A real run, some of whose clients send something else than they should."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from feddecorr.config.experiment import Experiment
from feddecorr.config.training import Evaluation
from feddecorr.core.client_memory import Memories
from feddecorr.core.messages import Broadcast, Failure, Update
from feddecorr.engines.engine import Serial
from feddecorr.server.federation import Federation, RunClients, Simulation

Spoil = Callable[[Update], Update | Failure]


class Spoilt:
    """A connection to simulated clients; what those of the table send is changed."""

    def __init__(
        self, experiment: Experiment, spoil: Mapping[int, Spoil], evaluation: Evaluation | None = None
    ) -> None:
        self._simulation = Simulation(experiment, evaluation=evaluation)
        self._spoil = spoil

    @property
    def federation(self) -> Federation:
        """What is known of them."""
        return self._simulation.federation

    @contextmanager
    def open(self, memories: Memories) -> Iterator[RunClients]:
        """Run the clients one after another."""
        with Serial().open(self._simulation.task, self._simulation.shards, memories) as run_clients:

            def spoilt(broadcast: Broadcast, clients: Sequence[int]) -> Iterator[Update | Failure]:
                for answer in run_clients(broadcast, clients):
                    changed = self._spoil.get(answer.client)
                    yield changed(answer) if changed and isinstance(answer, Update) else answer

            yield spoilt
