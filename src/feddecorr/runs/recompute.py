"""The models of a run: the global one after any round, and the clients' own before they were averaged.

The newest global model is in the run's directory. Everything else is trained again, to the same bits: a round's
clients from the state before the round, which is kept for the newest one; for an older round the run is repeated
up to it, in a directory of its own that is removed after.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from feddecorr.core.client_memory import Memories
from feddecorr.core.messages import Server, Update
from feddecorr.core.paths import InnerPath
from feddecorr.core.states import State
from feddecorr.core.temporary import temporary_folder
from feddecorr.errors import UserError
from feddecorr.partition import PARTITIONS
from feddecorr.partition.skew import Homogeneous
from feddecorr.runs.directory import RunDirectory
from feddecorr.runs.pipeline import run as repeat
from feddecorr.server.federation import Federation, Simulation
from feddecorr.server.rounds import sample_clients
from feddecorr.server.validation import ExpectedUpdates, UpdateValidator
from feddecorr.settings.options import RunOptions

Say = Callable[[str], None]


def describe(directory: RunDirectory) -> str:
    """Return what makes a run what it is: how its clients differ, and which regularizers it has."""
    experiment, _ = directory.settings()
    alpha = getattr(experiment.partition, "alpha", None)
    split = PARTITIONS.name(experiment.partition) if alpha is None else f"α = {alpha:g}"
    return ", ".join([split, *experiment.regularizers])


def is_homogeneous(directory: RunDirectory) -> bool:
    """Return whether all clients of a run hold data of the same distribution."""
    partition = directory.settings()[0].partition
    return isinstance(partition, Homogeneous) or math.isinf(getattr(partition, "alpha", 0.0))


def choose_clients(federation: Federation, number: int, clients: Sequence[int] | None) -> list[int]:
    """Return the clients of a round in the order in which they trained, or those of them that are asked for."""
    drawn = sample_clients(federation, number)
    if clients is None:
        return drawn
    for client in clients:
        if client not in drawn:
            raise UserError(
                f"client {client} did not train in round {number}: {', '.join(map(str, sorted(drawn)))} did"
            )
    return [client for client in drawn if client in clients]


@dataclass(frozen=True)
class RoundState:
    """A round of a run, ready to be done again: as it is kept if it is the newest, else repeated in the folder."""

    directory: RunDirectory
    simulation: Simulation
    options: RunOptions
    number: int
    folder: Path
    say: Say

    def after(self) -> State:
        """Return the model after the round."""
        return next(self._sources()).weights()

    def sent(self) -> State:
        """Return the model that the server sent to the clients of that round."""
        _, server = self._before()
        broadcast = self.simulation.task.experiment.method.broadcast(self.number, server)
        return {**broadcast.weights, **broadcast.buffers}

    def train(self, clients: Sequence[int]) -> Iterator[Update]:
        """Train these clients as they did in that round, in their order, with those of the same batch.

        Each sends its own update, also where the round took the mean of those who trained side by side.
        """
        if not clients:
            return
        source, server = self._before()
        task = self.simulation.task
        method = task.experiment.method
        broadcast = method.broadcast(self.number, server)
        expected = ExpectedUpdates(
            self.simulation.federation,
            broadcast,
            method.expected_extra(server, self.simulation.federation.info(self.number)),
        )
        validator = UpdateValidator(expected, clients, missing="fail", minimum=1)
        groups = task.groups(sample_clients(self.simulation.federation, self.number))
        trained_with = [client for group in groups if set(group) & set(clients) for client in group]
        simulation = self.simulation.apart()
        opened = self.options.engine.open(simulation.task, simulation.shards, self._lend(source, trained_with))
        with opened as run_clients:
            answers = run_clients(broadcast, trained_with)
            yield from validator.validate(answer for answer in answers if answer.client in clients)

    def _lend(self, source: RunDirectory, clients: Sequence[int]) -> Memories:
        """Let these clients remember in a place where training may write, too."""
        lent = Memories(InnerPath(self.folder) / "memories")
        for memories in (source.earlier_memories, source.memories):
            memories.lend(clients, self.number, to=lent)
        return lent

    def _before(self) -> tuple[RunDirectory, Server]:
        """Return the server before the round, and the run that keeps it."""
        for source in self._sources():
            server = source.load_server(self.simulation.federation.start(), before=True)
            if server is not None:
                return source, server
        raise UserError(f"the state before round {self.number} of {self.directory.path} cannot be recomputed")

    def _sources(self) -> Iterator[RunDirectory]:
        if self.directory.finished_rounds() == self.number:
            yield self.directory
        yield self._repeated()

    def _repeated(self) -> RunDirectory:
        experiment = self.simulation.task.experiment
        if not all(transform.deterministic for transform in experiment.transforms.values()):
            raise UserError(
                f"round {self.number} of {self.directory.path} is no longer kept, and cannot be trained again: its "
                "noise had no seed"
            )
        again = RunDirectory(self.folder / str(self.number))
        if not again.path.exists():
            self.say(f"round {self.number} is no longer kept: {self.number} rounds are trained again")
            evaluation = self.options.evaluation.model_copy(
                update={"every": self.number, "clients": False, "updates": False}
            )
            changes = {"rounds": self.number, "evaluation": evaluation, "trackers": {}}
            for _ in repeat(experiment, self.options.model_copy(update=changes), again.path):
                pass
        return again


@contextmanager
def state_of(
    directory: RunDirectory, simulation: Simulation, options: RunOptions, number: int, say: Say
) -> Iterator[RoundState]:
    """Open a round: as it is kept, if it is the newest and no other process continues the run; else repeated."""
    with temporary_folder() as folder:
        yield RoundState(directory, simulation, options, number, folder, say)
