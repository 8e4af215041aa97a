"""All clients of a round together: what averaging does to their models, and whose model does what to the average."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
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
from feddecorr.core.messages import Update
from feddecorr.core.states import STATISTICS, State
from feddecorr.partition.heterogeneity import Heterogeneity
from feddecorr.runs.evaluator_inputs import DiagnosisInputs
from feddecorr.runs.kept_models import KeptModels, between
from feddecorr.server.federation import Simulation

STEPS = 8
"""Into how many steps the way from a local model to the average is cut."""


class WholeRound:
    """Takes in the local models of a round one by one, keeps them in a folder, and then tells about all of them."""

    def __init__(self, simulation: Simulation, look: DiagnosisInputs, folder: Path, say: Callable[[str], None]) -> None:
        self._look, self._say = look, say
        self._kept = KeptModels(folder, STATISTICS[simulation.task.experiment.batchnorm])
        self._classes = len(simulation.task.classes)
        self._labels = simulation.labels.table()
        self._local: dict[int, Diagnosis] = {}
        self._own: dict[int, float | None] = {}
        self._layers: list[dict[str, float]] = []

    def take(self, update: Update, model: nn.Module, found: Diagnosis, *, layers: bool) -> None:
        """Take in a client's model and what was found out about it; look at its layers, too, if that is wanted."""
        self._kept.keep(update)
        self._local[update.client] = found.lean()
        self._own[update.client] = self._rank_on_own_classes(found, update.client)
        if layers:
            self._layers.append(self._look.layer_ranks(model))

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
            layers=mean_by_layer(self._layers, self._look.layer_ranks(self._look.build(state))) if self._layers else {},
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
