"""Does averaging itself collapse? The local models of a round and their average, on the same images."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import torch

from feddecorr.collapse.measures import Measures
from feddecorr.collapse.spectrum import tail_share

ALIKE = 0.05
"""Part of the dimensions within which words call two ranks the same."""


@dataclass(frozen=True)
class Averaging:
    """Means over the local models of a round, and the same of their average by numbers of examples.

    Ranks are effective ranks, and their mean is the geometric one, because ranks are compared as ratios. A tail is
    the share of the variance beyond the C − 1 strongest directions, as many as C classes need to be kept apart.
    """

    clients: int
    local_effective_rank: float
    averaged_effective_rank: float
    local_tail: float
    averaged_tail: float

    @classmethod
    def of(cls, local: Sequence[Measures], averaged: Measures, classes: int) -> Averaging:
        """Compare; all have seen the same images of that many classes."""
        return cls(
            clients=len(local),
            local_effective_rank=geometric_mean([each.effective_rank for each in local]),
            averaged_effective_rank=averaged.effective_rank,
            local_tail=math.fsum(tail_of(each, classes) for each in local) / len(local),
            averaged_tail=tail_of(averaged, classes),
        )

    def sentences(self) -> Iterator[str]:
        """Yield the answer in words."""
        yield (
            f"In effect the {self.clients} local models use {self.local_effective_rank:.1f} dimensions on the average, "
            f"and their average uses {self.averaged_effective_rank:.1f}: averaging {self._does()}."
        )
        yield (
            f"Beyond as many directions as the classes need lie {100 * self.local_tail:.1f} % of the variance in local "
            f"models, and {100 * self.averaged_tail:.1f} % in their average."
        )

    def _does(self) -> str:
        lost = self.local_effective_rank - self.averaged_effective_rank
        if abs(lost) <= ALIKE * self.local_effective_rank:
            return "itself changes little"
        if self.local_effective_rank == 0:
            return "adds all of them"
        share = f"({100 * abs(lost) / self.local_effective_rank:.0f} %)"
        return f"itself takes away {lost:.1f} of them {share}" if lost > 0 else f"adds {-lost:.1f} {share}"


def geometric_mean(ranks: Sequence[float]) -> float:
    """Return the exponential of the mean logarithm; zero where one of them is."""
    return math.exp(math.fsum(map(math.log, ranks)) / len(ranks)) if min(ranks) > 0 else 0.0


def averaging_effect(local: Sequence[float], averaged: float) -> float | None:
    """Return log(rank of the average) − mean of log(rank of a local model): below zero, averaging took dimensions.

    None without any local model, or where a model has no dimension at all.
    """
    mean = geometric_mean(local) if local else 0.0
    return math.log(averaged / mean) if min(mean, averaged) > 0 else None


def tail_of(found: Measures, classes: int) -> float:
    """Return the share of the variance beyond the directions that this many classes need."""
    return tail_share(torch.tensor(found.singular_values, dtype=torch.float64), classes - 1)


@dataclass(frozen=True)
class Way:
    """The straight way from a client's model (share 0) to the average (share 1), and what is found on it."""

    client: int
    shares: list[float]
    effective_ranks: list[float]
    accuracies: list[float | None]


@dataclass(frozen=True)
class AveragedRound:
    """All that was found out about the averaging of one round.

    `global_effective_rank` is that of the model which the method made of the updates; under FedAvg it is the average.
    `local_effective_ranks` and `local_tails` are those of each client. `layers` tells of what goes into each layer:
    the geometric mean of the local models' effective ranks, and the average's.
    """

    name: str
    averaging: Averaging
    global_effective_rank: float
    local_effective_ranks: dict[int, float]
    local_tails: dict[int, float]
    ways: list[Way]
    layers: dict[str, tuple[float, float]] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return it ready for JSON."""
        return {**asdict(self), "answer": self.answer()}

    def answer(self) -> list[str]:
        """Return the answer in sentences."""
        said = [f"{self.name}: does averaging itself collapse?", *self.averaging.sentences()]
        made = self.global_effective_rank
        if abs(made - self.averaging.averaged_effective_rank) > ALIKE * made:
            said.append(
                f"The method goes beyond the average: the global model that it made uses {made:.1f} dimensions."
            )
        if lost := {name: local - averaged for name, (local, averaged) in self.layers.items() if local > averaged}:
            most = max(lost, key=lambda name: lost[name] / self.layers[name][0])
            local, averaged = self.layers[most]
            said.append(
                f"Layer by layer, the largest part is lost in what '{most}' takes in: {local:.1f} dimensions in local "
                f"models, {averaged:.1f} in their average."
            )
        return said

    def rows(self) -> list[list[str]]:
        """Return the models as a table, by `HEADINGS`."""
        found = self.averaging
        numbers = {
            **{
                f"client {client}": (rank, self.local_tails[client])
                for client, rank in self.local_effective_ranks.items()
            },
            "mean of the clients'": (found.local_effective_rank, found.local_tail),
            "their average": (found.averaged_effective_rank, found.averaged_tail),
        }
        return [[name, f"{rank:.2f}", f"{tail:.4f}"] for name, (rank, tail) in numbers.items()]

    def layer_rows(self) -> list[list[str]]:
        """Return the layers as a table, by `LAYER_HEADINGS`."""
        return [[name, f"{local:.2f}", f"{averaged:.2f}"] for name, (local, averaged) in self.layers.items()]


HEADINGS = ("model", "effective rank", "tail")
LAYER_HEADINGS = ("what goes into", "mean of the clients' models", "their average")


def mean_by_layer(
    local: Sequence[Mapping[str, float]], averaged: Mapping[str, float]
) -> dict[str, tuple[float, float]]:
    """Return for each layer the geometric mean of the local models' ranks, and the average's."""
    return {name: (geometric_mean([ranks[name] for ranks in local]), rank) for name, rank in averaged.items()}
