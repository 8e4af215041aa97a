"""The models of a run: the global one after any round, and the clients' own before they were averaged.

The newest global model is in the run's directory. Everything else is trained again, to the same bits: a round's
clients from the state before the round, which is kept for the newest one; for an older round the run is repeated
up to it, in a directory of its own that is removed after.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from feddecorr.errors import UserError
from feddecorr.federation import Federation, Simulation
from feddecorr.files import load_tensors
from feddecorr.intake import Intake
from feddecorr.messages import Server, Update
from feddecorr.partition import PARTITIONS, Homogeneous
from feddecorr.rounds import draw_clients
from feddecorr.runs.directory import RunDirectory
from feddecorr.runs.memories import Memories
from feddecorr.runs.pipeline import run as repeat
from feddecorr.states import State
from feddecorr.temporary import temporary_folder

Say = Callable[[str], None]


def describe(directory: RunDirectory) -> str:
    """Return what makes a run what it is: how its clients differ, and which regularizers it has."""
    experiment = directory.described()
    alpha = getattr(experiment.partition, "alpha", None)
    split = PARTITIONS.name(experiment.partition) if alpha is None else f"α = {alpha:g}"
    return ", ".join([split, *experiment.regularizers])


def is_homogeneous(directory: RunDirectory) -> bool:
    """Tell whether all clients of a run hold data of the same distribution."""
    partition = directory.described().partition
    return isinstance(partition, Homogeneous) or math.isinf(getattr(partition, "alpha", 0.0))


def choose_clients(federation: Federation, number: int, clients: Sequence[int] | None) -> list[int]:
    """Return the clients of a round in the order in which they trained, or those of them that are asked for."""
    drawn = draw_clients(federation, number)
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
    """A round of a run, ready to be done again: the server before it, where memories are, the model after it."""

    simulation: Simulation
    number: int
    after: Callable[[], State]
    before: Callable[[], tuple[Server, Memories]]

    def sent(self) -> State:
        """Return the model that the server sent to the clients of that round."""
        server, _ = self.before()
        broadcast = self.simulation.task.experiment.method.broadcast(self.number, server)
        return {**broadcast.weights, **broadcast.buffers}

    def train(self, clients: Sequence[int]) -> Iterator[Update]:
        """Train these clients as they did in that round, in their order, beside those who trained beside them.

        Each sends its own update, also where the round took the mean of those who trained side by side.
        """
        if not clients:
            return
        server, memories = self.before()
        task = self.simulation.task
        method = task.experiment.method
        broadcast, extra = method.broadcast(self.number, server), method.expected_extra(server)
        intake = Intake(broadcast, clients, extra=extra, missing="fail", minimum=1)
        groups = task.groups(draw_clients(self.simulation.federation, self.number))
        beside = [client for group in groups if set(group) & set(clients) for client in group]
        with self.simulation.apart().open(memories) as run_clients:
            answers = run_clients(broadcast, beside)
            yield from intake.take(answer for answer in answers if answer.client in clients)


@contextmanager
def state_of(directory: RunDirectory, simulation: Simulation, number: int, say: Say) -> Iterator[RoundState]:
    """Open a round: as it is kept, if it is the newest and no other process goes on with the run; else repeated."""
    with ExitStack() as stack:
        place = stack.enter_context(temporary_folder())

        def repeated(rounds: int) -> RunDirectory:
            again = RunDirectory(place / str(rounds))
            if not all(transform.repeatable for transform in simulation.task.experiment.transforms.values()):
                raise UserError(
                    f"round {number} of {directory.path} is no longer kept, and cannot be trained again: its noise had "
                    "no seed"
                )
            if not again.path.exists():
                say(f"round {number} is no longer kept: {rounds} rounds are trained again")
                experiment = simulation.task.experiment
                evaluation = experiment.evaluation.model_copy(update={"every": rounds, "clients": False})
                shorter = experiment.model_copy(update={"rounds": rounds, "evaluation": evaluation})
                for _ in repeat(shorter, again.path):
                    pass
            return again

        def after() -> State:
            newest = directory.finished_rounds() == number
            return load_tensors((directory if newest else repeated(number)).path / "weights.safetensors")

        def before() -> tuple[Server, Memories]:
            source = directory if directory.finished_rounds() == number else repeated(number)
            server = source.take_up_previous(simulation.federation.start())
            if server is None:
                source = repeated(number)
                server = source.take_up_previous(simulation.federation.start())
            if server is None:
                raise UserError(f"the state before round {number} of {directory.path} cannot be made again")
            return server, _copy_memories(source, place / "memories")

        yield RoundState(simulation, number, after, before)


def _copy_memories(source: RunDirectory, target: Path) -> Memories:
    """Return what clients remember in a place where training may write, too."""
    for folder in (source.previous / "clients", source.path / "clients"):
        if folder.exists():
            shutil.copytree(folder, target, dirs_exist_ok=True)
    return Memories(target)
