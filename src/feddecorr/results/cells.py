"""The runs of a study by their labels: all seeds of one combination are a cell of its tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from feddecorr.results.sample import Sample
from feddecorr.results.study import Labels, Result
from feddecorr.results.summary import Summary

MISSING = "missing"
NOT_MEASURED = "–"


@dataclass(frozen=True)
class Cell:
    """All runs of one combination, by seed; `asked` is how many there should be."""

    labels: Labels
    runs: dict[int, Summary]
    asked: int

    def sample(self, statistic: str, measure: str = "accuracy") -> Sample:
        """Return a statistic of the global models, over the seeds that have it."""
        values = {seed: run.statistic(statistic, measure) for seed, run in self.runs.items()}
        return Sample({seed: value for seed, value in values.items() if value is not None})

    @property
    def count(self) -> str:
        """How many seeds there are, and of how many if some are missing."""
        return str(self.asked) if len(self.runs) == self.asked else f"{len(self.runs)} of {self.asked}"

    def text(self, sample: Sample, digits: int = 2, *, factor: float = 1.0) -> str:
        """Return mean ± standard deviation over the seeds as a cell of a table."""
        if not self.runs:
            return MISSING
        if not sample.values:
            return NOT_MEASURED
        mean = f"{factor * sample.mean:.{digits}f}"
        return mean if len(sample.values) == 1 else f"{mean} ± {factor * sample.deviation:.{digits}f}"

    def name(self, axes: Sequence[str]) -> str:
        """Return the labels of these axes as the name of a line."""
        named = [(axis, self.labels[axis]) for axis in axes]
        return ", ".join(f"{axis} {value}" if _is_number(value) else str(value) for axis, value in named)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) or value == "inf"


def gather(results: Sequence[Result]) -> list[Cell]:
    """Group results that differ in nothing but the seed, in the order in which they come."""
    cells: dict[tuple[tuple[str, object], ...], Cell] = {}
    for result in results:
        labels = {name: value for name, value in result.labels.items() if name != "seed"}
        key = tuple(labels.items())
        before = cells.get(key, Cell(labels, {}, 0))
        runs = before.runs if result.summary is None else {**before.runs, int(result.labels["seed"]): result.summary}
        cells[key] = Cell(labels, runs, before.asked + 1)
    return list(cells.values())


def split_by(cells: Sequence[Cell], axes: Sequence[str]) -> Iterator[tuple[str, list[Cell]]]:
    """Yield the cells that agree on these axes, with the name of what they agree on."""
    groups: dict[str, list[Cell]] = {}
    for cell in cells:
        groups.setdefault(cell.name(axes), []).append(cell)
    yield from groups.items()
