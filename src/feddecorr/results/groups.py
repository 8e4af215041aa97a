"""Which runs belong together: those that differ only in the seed are a cell, named by what distinguishes it."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from feddecorr.config.overrides import SEVERAL, flatten
from feddecorr.errors import UserError
from feddecorr.results.names import ABSENT, ArmName, name_arm
from feddecorr.results.sample import Sample
from feddecorr.results.study import Label, Labels, Result
from feddecorr.results.summary import Context, Summary
from feddecorr.settings.options import REGISTRIES

LENGTH = ("rounds", "training.schedule.over")
"""How long a run is: its rounds, and those over which its learning rate falls."""

MISSING = "missing"
NOT_MEASURED = "–"

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)


def group_by(items: Iterable[T], key: Callable[[T], K]) -> dict[K, list[T]]:
    """Return the items by their keys, both in the order in which they come."""
    groups: dict[K, list[T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def sample_runs(runs: Mapping[int, Summary], of: Callable[[Summary], float | None]) -> Sample:
    """Return a number of each run that has it, by seed."""
    values = {seed: of(run) for seed, run in runs.items()}
    return Sample({seed: value for seed, value in values.items() if value is not None})


@dataclass(frozen=True)
class Cell:
    """All runs of one combination of labels, by seed; `asked` is how many there should be."""

    labels: Labels
    runs: dict[int, Summary]
    asked: int

    def sample(self, statistic: str, measure: str = "accuracy") -> Sample:
        """Return a statistic of the global models, over the seeds that have it."""
        return sample_runs(self.runs, lambda run: run.statistic(statistic, measure))

    @property
    def count(self) -> str:
        """How many seeds there are, and of how many if some are missing."""
        return str(self.asked) if len(self.runs) == self.asked else f"{len(self.runs)} of {self.asked}"

    def text(self, sample: Sample, digits: int = 2, *, factor: float = 1.0) -> str:
        """Return mean ± standard deviation over the seeds as a cell of a table."""
        return (sample.times(factor).text(digits) or NOT_MEASURED) if self.runs else MISSING

    def named(self, axes: Sequence[str] | None = None, *, alone: bool = False) -> ArmName:
        """Return the name of these labels, by default of all; `alone` adds no method to a regularizer."""
        axes = list(self.labels) if axes is None else axes
        if alone and "method" not in axes:
            return name_arm({axis: self.labels[axis] for axis in axes})
        settings = next(iter(self.runs.values())).settings if self.runs else {"method": {"name": self._method}}
        return name_arm({axis: self.labels[axis] for axis in axes}, settings)

    def name(self, axes: Sequence[str] | None = None) -> str:
        """Return that name in one line."""
        return self.named(axes).whole

    @property
    def _method(self) -> str:
        return str(self.labels.get("method", ""))


def gather(results: Sequence[Result]) -> list[Cell]:
    """Group the results of a study that differ in nothing but the seed, in the order in which they come."""
    groups = group_by(results, lambda result: tuple(pair for pair in result.labels.items() if pair[0] != "seed"))
    return [
        Cell(dict(labels), {int(each.labels["seed"]): each.summary for each in same if each.summary}, len(same))
        for labels, same in groups.items()
    ]


def split_by(cells: Sequence[Cell], axes: Sequence[str]) -> Iterator[tuple[str, list[Cell]]]:
    """Yield the cells that agree on these axes, with the name of what they agree on."""
    yield from group_by(cells, lambda cell: cell.name(axes)).items()


def covers(name: str, key: str) -> bool:
    """Return whether a name stands for a key: itself, or a table that holds it."""
    return key == name or key.startswith(f"{name}.")


def context(summary: Summary, but: Sequence[str] = ()) -> Context:
    """Return the experiment of a run and its number of rounds, without the seed and these settings."""
    if not but:
        return summary.context
    inside = tuple(f"{name}." for name in but)
    return tuple(pair for pair in summary.context if pair[0] not in but and not pair[0].startswith(inside))


def is_finished(summary: Summary) -> bool:
    """Return whether a run has all of its rounds."""
    return len(summary.rounds) >= int(summary.options["rounds"])


def by_seed(summaries: Iterable[Summary]) -> dict[int, Summary]:
    """Return runs of one context by seed; those with the same seed have the same bits."""
    return {int(summary.experiment["seed"]): summary for summary in summaries}


def differing(contexts: Iterable[Context]) -> list[str]:
    """Return the keys whose values differ between contexts, or that only some of them have."""
    found = list(contexts)
    return [key for key, values in _values(found).items() if len(set(values)) > 1 or len(values) < len(found)]


def _values(contexts: Iterable[Context]) -> dict[str, list[str]]:
    pairs = group_by((pair for each in contexts for pair in each), lambda pair: pair[0])
    return {key: [value for _, value in found] for key, found in pairs.items()}


def refuse_unknown(names: Iterable[str], summaries: Sequence[Summary]) -> None:
    """Refuse names of settings that no run has."""
    known = {key for run in summaries for key in flatten(run.settings)}
    for name in names:
        if not any(covers(name, key) for key in known):
            raise UserError(f"no run has a setting '{name}': choose one such as method, regularizers, partition.alpha")


def group_runs(summaries: Sequence[Summary], asked: Sequence[str] = ()) -> list[Cell]:
    """Return any runs by what differs between them, with labels by setting; those that are asked for come first.

    Cells come in the order of their labels: numbers by size, kinds as their registry has them.
    """
    groups = group_by(summaries, context)
    refuse_unknown(asked, summaries)
    asked = [name for name in asked if not any(_is_plain_table(run.settings.get(name), name) for run in summaries)]
    names = _settings(list(groups), asked)
    cells = []
    for runs in groups.values():
        seeds = by_seed(runs)
        cells.append(Cell({name: _label(runs[0], name) for name in names}, seeds, len(seeds)))
    return sorted(cells, key=lambda cell: [rank(*label) for label in cell.labels.items()])


def _settings(contexts: Sequence[Context], asked: Sequence[str]) -> list[str]:
    """Return the names that distinguish contexts.

    Where kinds differ, an option of theirs does so only if it varies for one of them.
    """
    settings, found = [dict(each) for each in contexts], list(asked)
    for key in differing(contexts):
        values = [each[key] for each in settings if key in each]
        several = next((name for name in SEVERAL if covers(name, key)), "")
        if several:
            found += [several] * (len(values) < len(settings)) + [key] * (len(set(values)) > 1)
            continue
        kind = next((parent for parent in _parents(key) if _differ(settings, f"{parent}.name")), None)
        if kind is None or key == f"{kind}.name":
            found.append(key.removesuffix(".name"))
            continue
        for name in {each[f"{kind}.name"] for each in settings}:
            if len({each.get(key) for each in settings if each[f"{kind}.name"] == name}) > 1:
                found.append(key)
    return list(dict.fromkeys(found))


def _differ(settings: Sequence[Mapping[str, str]], key: str) -> bool:
    """Return whether all of these settings have the key, with different values."""
    return all(key in each for each in settings) and len({each[key] for each in settings}) > 1


def _is_plain_table(value: object, name: str) -> bool:
    """Return whether a name stands for several settings, of which those that differ are named anyway."""
    return isinstance(value, Mapping) and "name" not in value and name not in SEVERAL


def _parents(key: str) -> Iterator[str]:
    while "." in key:
        key = key.rpartition(".")[0]
        yield key


def _label(run: Summary, setting: str) -> Label:
    """Return the value of a setting: of a kind its name, of a table the names in it."""
    value = run.settings.get(setting)
    if value is None:
        flat = flatten(run.settings)
        value = flat.get(f"{setting}.name", flat.get(setting, ABSENT))
    if value == "Infinity":  # as settings are written
        return "inf"
    if isinstance(value, Mapping):
        return str(value["name"]) if "name" in value else "+".join(value) or "none"
    return value if isinstance(value, int | float) and not isinstance(value, bool) else str(value)


def rank(setting: str, value: Label) -> tuple[int, float, str]:
    """Return what a label is sorted by: nothing first, then numbers by size, kinds in their order, then words."""
    if value in ("none", ABSENT):
        return 0, 0.0, ""
    number = math.inf if value == "inf" else value
    if isinstance(number, int | float):
        return 1, float(number), ""
    kinds = list(REGISTRIES[setting].table) if setting in REGISTRIES else []
    return (2, float(kinds.index(value)), "") if value in kinds else (3, 0.0, str(value))
