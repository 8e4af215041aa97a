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
from dataclasses import dataclass, replace
from pathlib import Path

from torch import nn

from feddecorr.collapse.diagnosis import Diagnosis
from feddecorr.errors import UserError
from feddecorr.federation import Federation, Simulation, Task
from feddecorr.files import load_tensors
from feddecorr.intake import Intake
from feddecorr.messages import Server, Update
from feddecorr.partition import PARTITIONS, Homogeneous
from feddecorr.rounds import draw_clients
from feddecorr.runs.directory import RunDirectory
from feddecorr.runs.evaluation import Evaluator
from feddecorr.runs.memories import Memories
from feddecorr.runs.pipeline import run as repeat
from feddecorr.settings.trust import STRANGER, Trust
from feddecorr.states import State, load_into
from feddecorr.temporary import temporary_folder
from feddecorr.threads import hands

Say = Callable[[str], None]


@dataclass(frozen=True)
class Wanted:
    """Which models of a run, on which images: `round` None is the last, `clients` None are all of that round."""

    round: int | None = None
    local: bool = False
    clients: Sequence[int] | None = None
    on: str = "test"


def diagnose_run(
    directory: RunDirectory, wanted: Wanted, name: str, say: Say, *, trust: Trust = STRANGER
) -> list[Diagnosis]:
    """Diagnose the global model and, if wanted, the local models that were made from the one before it."""
    done = directory.finished_rounds()
    number = done if wanted.round is None else wanted.round
    if done == 0:
        raise UserError(f"{directory.path} has no finished round yet: 'feddecorr resume {directory.path}' goes on")
    if not 1 <= number <= done:
        raise UserError(f"{directory.path} has rounds 1 to {done}, not {number}")
    simulation = Simulation(directory.experiment(trust))
    chosen = choose_clients(simulation.federation, number, wanted.clients) if wanted.local else []
    images = simulation.dataset.test if wanted.on == "test" else simulation.dataset.train
    look = Evaluator(simulation.task, images, hands(simulation.task.experiment.training.threads))
    with state_of(directory, simulation, number, say) as state:
        model = _filled(simulation.task, state.after())
        first = look.diagnose(model, name=f"{name}, round {number}, global")
        found = [replace(first, homogeneous=is_homogeneous(directory))]
        for update in state.train(chosen):
            local = _filled(simulation.task, {**update.weights, **update.buffers})
            title = f"{name}, round {number}, client {update.client}"
            say(f"client {update.client} is trained and looked at")
            theirs = look.diagnose(local, name=title, beside=(model, found[0]))
            found.append(replace(theirs, client=update.client).lean())
    return sorted(found, key=lambda each: -1 if each.client is None else each.client)


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

    def train(self, clients: Sequence[int]) -> Iterator[Update]:
        """Train these clients as they did in that round; nothing but their order in the round may change."""
        if not clients:
            return
        server, memories = self.before()
        method = self.simulation.task.experiment.method
        broadcast, extra = method.broadcast(self.number, server), method.expected_extra(server)
        intake = Intake(broadcast, clients, extra=extra, missing="fail", minimum=1)
        with self.simulation.open(memories) as run_clients:
            yield from intake.take(run_clients(broadcast, clients))


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


def _filled(task: Task, state: State) -> nn.Module:
    model = task.build_model()
    load_into(model, state)
    return model
