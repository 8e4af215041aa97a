"""Who is to blame? What each client's training did to the rank, and what its model does to the average."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import reduce
from operator import add
from typing import Any

from feddecorr.collapse import spectrum
from feddecorr.collapse.statistics import Statistics

CLEAR = 0.5
"""A rank correlation beyond this is put into words."""

FEWEST = 5
"""Clients below which no correlation says anything."""


@dataclass(frozen=True)
class Suspect:
    """One client of a round: what it holds, and the effective ranks that its model has part in.

    `sent` is what it was sent, `local` what it made of it: on all images, and `own` on those of the classes that it
    holds. `without` is the average of all others. None is what cannot be told.
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

    @classmethod
    def of(cls, name: str, average: float, suspects: Iterable[Suspect]) -> Blame:
        """Put them in order."""
        return cls(name, average, sorted(suspects, key=lambda each: (-each.lost, each.client)))

    def raised(self, suspect: Suspect) -> float | None:
        """Return by how many dimensions the average has more without that client."""
        return None if suspect.without is None else suspect.without - self.average

    def correlations(self) -> dict[tuple[str, str], float | None]:
        """Return how each effect goes with what clients hold: Spearman's correlation, None where it says nothing."""
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


HEADINGS = (
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
EFFECTS = {"lost": "more dimensions its training takes", "raised": "more the average gains without it"}
HOLDINGS = {"effective_classes": "classes", "examples": "examples"}
"""What is put into words."""


def _text(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def rank_within(statistics: Statistics, labels: Iterable[int]) -> float | None:
    """Return the effective rank of the samples of these classes alone; None where that is not kept."""
    classes = statistics.classes or {}
    mine = [classes[label] for label in labels if label in classes]
    values = reduce(add, mine).singular_values() if mine else None
    return None if values is None else spectrum.effective_rank(values)


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
