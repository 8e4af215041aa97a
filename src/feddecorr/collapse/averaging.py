"""The models of one round: whether averaging itself collapses, and which client is to blame."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import reduce
from operator import add
from typing import Any, ClassVar

import torch

from feddecorr.collapse.measures import Measures
from feddecorr.collapse.spectrum import tail_share
from feddecorr.collapse.statistics import Statistics

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
    """The straight line from a client's model (share 0) to the average (share 1), and the measures along it."""

    client: int
    shares: list[float]
    effective_ranks: list[float]
    accuracies: list[float | None]


@dataclass(frozen=True)
class AveragedRound:
    """The measures of the averaging of one round.

    `global_effective_rank` is that of the model which the method made of the updates; under FedAvg it is the average.
    `local_effective_ranks` and `local_tails` are those of each client. `layers` is about the inputs of each layer:
    the geometric mean of the local models' effective ranks, and the average's.
    """

    name: str
    averaging: Averaging
    global_effective_rank: float
    local_effective_ranks: dict[int, float]
    local_tails: dict[int, float]
    ways: list[Way]
    layers: dict[str, tuple[float, float]] = field(default_factory=dict)

    HEADINGS: ClassVar = ("model", "effective rank", "tail")
    LAYER_HEADINGS: ClassVar = ("what goes into", "mean of the clients' models", "their average")

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


def mean_by_layer(
    local: Sequence[Mapping[str, float]], averaged: Mapping[str, float]
) -> dict[str, tuple[float, float]]:
    """Return for each layer the geometric mean of the local models' ranks, and the average's."""
    return {name: (geometric_mean([ranks[name] for ranks in local]), rank) for name, rank in averaged.items()}


CLEAR = 0.5
"""A rank correlation beyond this is put into words."""

FEWEST = 5
"""Clients below which no correlation says anything."""


@dataclass(frozen=True)
class Suspect:
    """One client of a round: what it holds, and effective ranks of models with and without it.

    `sent` is the model that it received, `local` the model that it returned: on all images, and `own` on images of its
    own classes. `without` is the average of all others. None is what is unknown.
    """

    client: int
    examples: int
    classes: int
    effective_classes: float
    sent: float
    local: float
    own_sent: float | None
    own_local: float | None
    without: float | None

    @property
    def lost(self) -> float:
        """The dimensions that its training took, on all images."""
        return self.sent - self.local

    @property
    def own_lost(self) -> float | None:
        """The same on images of its own classes."""
        return None if self.own_sent is None or self.own_local is None else self.own_sent - self.own_local


@dataclass(frozen=True)
class Blame:
    """The clients of a round, those first whose training took the most; `average` is the rank of their average."""

    name: str
    average: float
    suspects: list[Suspect]

    HEADINGS: ClassVar = (
        "client",
        "examples",
        "classes",
        "effective classes",
        "sent",
        "local",
        "lost",
        "sent, own classes",
        "local, own classes",
        "lost, own classes",
        "average without it",
        "raised",
    )

    @classmethod
    def of(cls, name: str, average: float, suspects: Iterable[Suspect]) -> Blame:
        """Rank the clients."""
        return cls(name, average, sorted(suspects, key=lambda each: (-each.lost, each.client)))

    def raised(self, suspect: Suspect) -> float | None:
        """Return by how many dimensions the average has more without that client."""
        return None if suspect.without is None else suspect.without - self.average

    def correlations(self) -> dict[tuple[str, str], float | None]:
        """Return Spearman's correlation of each effect with the clients' data; None where it is undefined."""
        effects: dict[str, list[float | None]] = {
            "lost": [each.lost for each in self.suspects],
            "own_lost": [each.own_lost for each in self.suspects],
            "raised": [self.raised(each) for each in self.suspects],
        }
        holdings: dict[str, list[float | None]] = {
            "examples": [float(each.examples) for each in self.suspects],
            "effective_classes": [each.effective_classes for each in self.suspects],
        }
        return {
            (effect, holding): rank_correlation(values, held)
            for effect, values in effects.items()
            for holding, held in holdings.items()
        }

    def to_dict(self) -> dict[str, Any]:
        """Return it ready for JSON."""
        suspects = [
            {**asdict(each), "lost": each.lost, "own_lost": each.own_lost, "raised": self.raised(each)}
            for each in self.suspects
        ]
        return {
            "name": self.name,
            "average": self.average,
            "clients": suspects,
            "correlations": {
                f"{effect}_by_{holding}": value for (effect, holding), value in self.correlations().items()
            },
            "answer": self.answer(),
        }

    def answer(self) -> list[str]:
        """Return the answer in sentences."""
        return [f"{self.name}: who is to blame?", *self._sentences()]

    def _sentences(self) -> Iterator[str]:
        first = self.suspects[0]
        if first.lost > 0:
            own = (
                ""
                if first.own_sent is None or first.own_local is None
                else f"; on its own classes, {first.own_sent:.1f} became {first.own_local:.1f}"
            )
            yield (
                f"Client {first.client} lost most in training: {first.lost:.1f} of the {first.sent:.1f} dimensions "
                f"that it was sent{own} (it holds {first.examples} examples of {first.classes} classes)."
            )
        else:
            yield f"No client's training took dimensions: all have at least the {first.sent:.1f} that they were sent."
        raised = {each.client: change for each in self.suspects if (change := self.raised(each)) is not None}
        if raised:
            client = max(raised, key=lambda each: raised[each])
            yield (
                f"The average of all has {self.average:.1f} dimensions; without client {client} it would have "
                f"{self.average + raised[client]:.1f}, more than without any other."
                if raised[client] > 0
                else f"The average of all has {self.average:.1f} dimensions, more than without any one client."
            )
        for (effect, holding), value in self.correlations().items():
            if value is not None and abs(value) >= CLEAR and effect in EFFECTS:
                less = "fewer" if value < 0 else "more"
                yield (
                    f"The {less} {HOLDINGS[holding]} a client holds, the {EFFECTS[effect]} "
                    f"(rank correlation {value:+.2f})."
                )

    def rows(self) -> list[list[str]]:
        """Return the clients as a table, by `HEADINGS`."""
        return [
            [str(each.client), str(each.examples), str(each.classes), *map(_text, self._numbers(each))]
            for each in self.suspects
        ]

    def _numbers(self, each: Suspect) -> list[float | None]:
        everywhere = [each.effective_classes, each.sent, each.local, each.lost]
        return [*everywhere, each.own_sent, each.own_local, each.own_lost, each.without, self.raised(each)]


EFFECTS = {"lost": "more dimensions its training takes", "raised": "more the average gains without it"}
HOLDINGS = {"effective_classes": "classes", "examples": "examples"}
"""What is put into words."""


def _text(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def rank_within(statistics: Statistics, labels: Iterable[int]) -> float | None:
    """Return the effective rank of the samples of these classes alone; None where that is not kept."""
    classes = statistics.classes or {}
    mine = [classes[label] for label in labels if label in classes]
    return reduce(add, mine).effective_rank() if mine else None


def rank_correlation(one: Sequence[float | None], other: Sequence[float | None]) -> float | None:
    """Return Spearman's rank correlation; None of few, of unknown or of all equal numbers."""
    known = [(x, y) for x, y in zip(one, other, strict=True) if x is not None and y is not None]
    if len(known) < max(FEWEST, len(one)):
        return None
    first, second = (_ranks(values) for values in zip(*known, strict=True))
    middle = (len(known) - 1) / 2
    product = math.fsum((x - middle) * (y - middle) for x, y in zip(first, second, strict=True))
    size = math.sqrt(math.fsum((x - middle) ** 2 for x in first) * math.fsum((y - middle) ** 2 for y in second))
    return product / size if size > 0 else None


def _ranks(values: Sequence[float]) -> list[float]:
    """Return the place of each value from 0; equal ones share the mean of their places."""
    ordered = sorted(values)
    return [ordered.index(value) + (ordered.count(value) - 1) / 2 for value in values]
