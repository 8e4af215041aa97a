"""Diagnosis of stored models and of a run's models: global, local, averaged, and each client's contribution."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np
from torch import nn

from feddecorr.collapse.averaging import (
    AveragedRound,
    Averaging,
    Blame,
    Suspect,
    Way,
    mean_by_layer,
    rank_within,
    tail_of,
)
from feddecorr.collapse.diagnosis import Diagnosis
from feddecorr.collapse.updates import RoundUpdates, UpdatedRound
from feddecorr.collapse.verdict import looks_untrained
from feddecorr.config.experiment import Experiment
from feddecorr.core.files import load_tensors, save_tensors
from feddecorr.core.messages import Update
from feddecorr.core.randomness import parallel_jobs
from feddecorr.core.states import STATISTICS, Mean, State, load_into
from feddecorr.core.temporary import temporary_folder
from feddecorr.core.trust import STRANGER, Trust
from feddecorr.data.dataset import Dataset
from feddecorr.errors import UserError
from feddecorr.models import Custom
from feddecorr.models.model import use_batch_statistics
from feddecorr.models.weights import load_weights
from feddecorr.partition.heterogeneity import Heterogeneity
from feddecorr.runs.directory import RunDirectory
from feddecorr.runs.evaluation import Evaluator
from feddecorr.runs.recompute import Say, choose_clients, is_homogeneous, state_of
from feddecorr.server.federation import Simulation
from feddecorr.server.rounds import sample_clients
from feddecorr.settings.options import RunOptions
from feddecorr.training.task import Task

REMARKS = {"model": "", "batch": ", statistics of each batch"}
"""What the name of a model has to add, by whose statistics BatchNorm normalizes."""


@dataclass(frozen=True)
class Wanted:
    """Which models of a run, on which images: `round` None is the last, `clients` None are all of that round.

    BatchNorm's `statistics` are the `model`'s or those of each `batch` of the images. With `averaging`, the local
    models are compared with their average, with `layers` also layer by layer. With `updates`, what they change is
    measured.
    """

    round: int | None = None
    local: bool = False
    clients: Sequence[int] | None = None
    on: str = "test"
    statistics: str = "model"
    averaging: bool = False
    layers: bool = False
    updates: bool = False

    @property
    def blames(self) -> bool:
        """Whether clients are ranked: then all of them are asked for."""
        return self.local and self.clients is None

    @property
    def whole(self) -> bool:
        """Whether it needs all clients of the round."""
        return self.averaging or self.blames or self.updates


class DiagnosisInputs:
    """Looks at models of a run, on the images that are wanted."""

    def __init__(self, task: Task, dataset: Dataset, wanted: Wanted) -> None:
        self._task, self._statistics = task, wanted.statistics
        images = dataset.test if wanted.on == "test" else dataset.train
        self._count = len(images)
        self.evaluator = Evaluator(task, images, parallel_jobs(task.experiment.training.threads))

    def build(self, state: State) -> nn.Module:
        """Return the network with that state."""
        model = self._task.build_model()
        load_into(model, state)
        return self.prepare(model)

    def prepare(self, model: nn.Module) -> nn.Module:
        """Let BatchNorm's statistics be those that are wanted."""
        if self._statistics == "batch":
            use_batch_statistics(model, self._count, self._task.evaluation.batch)
        return model

    def briefly(self, state: State) -> Diagnosis:
        """Return what follows from representations and decisions alone."""
        return self.evaluator.diagnose(self.build(state), weights=False).lean()


def diagnose_stored(
    experiment: Experiment,
    options: RunOptions,
    weights: Path | None,
    *,
    layer: str | None = None,
    on: str = "test",
    statistics: str = "model",
) -> Diagnosis:
    """Diagnose the experiment's model on its data; without weights, as it is before training.

    BatchNorm's `statistics` are the `model`'s or those of each `batch` of the images.
    """
    dataset = experiment.data.load()
    task = Task.of(experiment, dataset, options.device, options.evaluation)
    model = task.build_model()
    if weights is not None:
        load_weights(model, weights)
    look = DiagnosisInputs(task, dataset, Wanted(on=on, statistics=statistics))
    name = ("model" if weights is None else str(weights)) + REMARKS[statistics]
    found = look.evaluator.diagnose(look.prepare(model), name=name, layer=layer)
    drawn = weights is None and not isinstance(experiment.model, Custom)  # your own class may load weights itself
    return replace(found, untrained=drawn or looks_untrained(model))


@dataclass(frozen=True)
class KeptModels:
    """Weights and statistics of each client in a folder; `mean` is how they become those of the average."""

    folder: Path
    mean: type[Mean]
    examples: dict[int, int] = field(default_factory=dict)

    def keep(self, update: Update) -> None:
        """Keep a client's model."""
        save_tensors(self._file(update.client), {**update.weights, **update.buffers})
        self.examples[update.client] = update.examples

    def model(self, client: int) -> State:
        """Return a client's model."""
        return load_tensors(self._file(client))

    def average(self, *, but: int | None = None) -> State:
        """Return the average by numbers of examples, of all or of all others, to the last bit as a server has it."""
        mean = self.mean()
        for client, examples in self.examples.items():
            if client != but:
                mean.add(self.model(client), examples)
        return mean.value

    def _file(self, client: int) -> Path:
        return self.folder / f"{client}.safetensors"


def between(start: State, end: State, share: float) -> State:
    """Return the model at that share of the straight line from one to another."""
    mean = Mean()
    mean.add(start, 1 - share)
    mean.add(end, share)
    return mean.value


STEPS = 8
"""Into how many steps the way from a local model to the average is cut."""


class WholeRound:
    """Takes in the local models of a round one by one, keeps them in a folder, and then compares all of them."""

    def __init__(self, simulation: Simulation, look: DiagnosisInputs, folder: Path, say: Callable[[str], None]) -> None:
        self._look, self._say, self._layer_ranks = look, say, look.evaluator.layer_ranks
        self._kept = KeptModels(folder, STATISTICS[simulation.task.experiment.batchnorm])
        self._classes = len(simulation.task.classes)
        self._labels = simulation.labels.table()
        self._local: dict[int, Diagnosis] = {}
        self._own: dict[int, float | None] = {}
        self._layers: list[dict[str, float]] = []

    def take(self, update: Update, model: nn.Module, found: Diagnosis, *, layers: bool) -> None:
        """Add a client's model and its diagnosis; measure its layers, too, if wanted."""
        self._kept.keep(update)
        self._local[update.client] = found.lean()
        self._own[update.client] = self._rank_on_own_classes(found, update.client)
        if layers:
            self._layers.append(self._layer_ranks(model))

    def averaging(self, name: str, whole: Diagnosis, clients: Sequence[int]) -> AveragedRound:
        """Compare the local models with their average; `whole` is the global model, ways are those of the clients."""
        state, averaged = self._average
        local = dict(sorted(self._local.items()))
        return AveragedRound(
            name=name,
            averaging=Averaging.of(list(local.values()), averaged, self._classes),
            global_effective_rank=whole.effective_rank,
            local_effective_ranks={client: found.effective_rank for client, found in local.items()},
            local_tails={client: tail_of(found, self._classes) for client, found in local.items()},
            ways=[self._way(client, state, averaged) for client in clients],
            layers=mean_by_layer(self._layers, self._layer_ranks(self._look.build(state))) if self._layers else {},
        )

    def blame(self, name: str, sent: Diagnosis) -> Blame:
        """Rank the clients; `sent` is what all of them began with."""
        return Blame.of(name, self._average[1].effective_rank, self._suspects(sent))

    @cached_property
    def _average(self) -> tuple[State, Diagnosis]:
        state = self._kept.average()
        return state, self._look.briefly(state)

    def _way(self, client: int, end: State, averaged: Diagnosis) -> Way:
        start = self._kept.model(client)
        shares = [step / STEPS for step in range(STEPS + 1)]
        inner = [self._look.briefly(between(start, end, share)) for share in shares[1:-1]]
        found = [self._local[client], *inner, averaged]
        self._say(f"the way from client {client} to the average is looked at")
        return Way(client, shares, [each.effective_rank for each in found], [each.accuracy for each in found])

    def _suspects(self, sent: Diagnosis) -> Iterator[Suspect]:
        held = Heterogeneity.of(self._labels)
        for place, (client, found) in enumerate(self._local.items(), start=1):
            alone = len(self._local) == 1
            without = None if alone else self._look.briefly(self._kept.average(but=client)).effective_rank
            self._say(f"the average without client {client} is looked at ({place} of {len(self._local)})")
            yield Suspect(
                client=client,
                examples=self._kept.examples[client],
                classes=int(held.classes[client]),
                effective_classes=float(held.effective_classes[client]),
                sent=sent.effective_rank,
                local=found.effective_rank,
                own_sent=self._rank_on_own_classes(sent, client),
                own_local=self._own[client],
                without=without,
            )

    def _rank_on_own_classes(self, found: Diagnosis, client: int) -> float | None:
        own = np.flatnonzero(self._labels[client]).tolist()
        return None if found.gathered is None else rank_within(found.gathered.statistics, own)


@dataclass(frozen=True)
class Examination:
    """What was found out: the global model first, then clients in their order; the rest where it was wanted."""

    diagnoses: list[Diagnosis]
    averaging: AveragedRound | None = None
    blame: Blame | None = None
    updates: UpdatedRound | None = None


def examine(directory: RunDirectory, wanted: Wanted, name: str, say: Say, *, trust: Trust = STRANGER) -> Examination:
    """Diagnose the global model and, if wanted, the local models trained from the one before it.

    For the average and for blame, all clients are trained again whose updates were taken.
    """
    number = _choose_round(directory, wanted)
    experiment, options = directory.settings(trust)
    simulation = Simulation(experiment, device=options.device, evaluation=options.evaluation)
    simulation = simulation.with_task(simulation.task.built())
    look = DiagnosisInputs(simulation.task, simulation.dataset, wanted)
    diagnose, title = look.evaluator.diagnose, f"{name}, round {number}{REMARKS[wanted.statistics]}"
    shown = trained = choose_clients(simulation.federation, number, wanted.clients) if wanted.local else []
    if wanted.whole:
        missing = directory.round(number).missing
        for client in set(wanted.clients or ()) & missing.keys():
            raise UserError(f"client {client} is not in the average of round {number}: {missing[client]}")
        trained = [client for client in sample_clients(simulation.federation, number) if client not in missing]
        shown = [client for client in shown if client not in missing]
        if not trained:
            raise UserError(f"nobody trained in round {number}: it has no local models")
    with ExitStack() as stack:
        state = stack.enter_context(state_of(directory, simulation, options, number, say))
        model = look.build(state.after())
        first = diagnose(model, name=f"{title}, global")
        start = simulation.federation.start()
        first = replace(
            first,
            homogeneous=is_homogeneous(directory),
            untrained=False,
            start_effective_rank=look.briefly({**start.weights, **start.buffers}).effective_rank,
        )
        sent = diagnose(look.build(state.sent()), name="sent", weights=False) if wanted.blames else None
        together = WholeRound(simulation, look, stack.enter_context(temporary_folder()), say)
        local: dict[int, Diagnosis] = {}
        changes, changed = RoundUpdates(state.sent() if wanted.updates else {}), {}
        for place, update in enumerate(state.train(trained), start=1):
            if wanted.updates:
                change = changes.take(update.weights, update.examples)
                changed[update.client] = replace(change, name=f"{title}, update of client {update.client}")
            theirs = look.build({**update.weights, **update.buffers})
            found = diagnose(theirs, name=f"{title}, client {update.client}", compared_with=(model, first))
            say(f"client {update.client} is trained and evaluated ({place} of {len(trained)})")
            if wanted.whole:
                together.take(update, theirs, found, layers=wanted.layers)
            if update.client in shown:
                local[update.client] = replace(found, client=update.client).lean()
        return Examination(
            [first, *(found for _, found in sorted(local.items()))],
            together.averaging(title, first, shown or trained[:1]) if wanted.averaging else None,
            None if sent is None else together.blame(title, sent),
            UpdatedRound(title, changes.layers(), dict(sorted(changed.items()))) if wanted.updates else None,
        )


def _choose_round(directory: RunDirectory, wanted: Wanted) -> int:
    done = directory.require_rounds()
    number = done if wanted.round is None else wanted.round
    if not 1 <= number <= done:
        raise UserError(f"{directory.path} has rounds 1 to {done}, not {number}")
    return number
