"""The lines of a report: one for each run, or one for all seeds of the same settings."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from feddecorr.results.contexts import by_seed, context, is_finished
from feddecorr.results.curves import Band, Points, band, spread
from feddecorr.results.groups import group_runs, name_cell
from feddecorr.results.summary import Summary


@dataclass(frozen=True)
class SeedGroup:
    """What is one line in every figure: runs by their names, which differ in nothing but the seed."""

    name: str
    runs: Mapping[str, Summary]

    def curve(self, read: Callable[[Summary], Points]) -> Band:
        """Return the mean over the seeds and its deviation, where all of them have a value."""
        return band([read(run) for run in self.runs.values()])

    def mean(self, read: Callable[[Summary], float | None], form: str) -> str | None:
        """Return the mean ± the deviation over the seeds that have it, as a cell of a table; None if none has."""
        values = [value for run in self.runs.values() if (value := read(run)) is not None]
        if not values:
            return None
        mean = format(fmean(values), form)
        return mean if len(self.runs) == 1 else f"{mean} ± {format(spread(values), form)}"


def group_seeds(runs: Mapping[str, Summary]) -> list[SeedGroup]:
    """Return the lines in the order of their first runs, named by what the names of their runs share, or by settings.

    Runs that are not done, and copies of the same run, stay by themselves: a mean would hide how far each has come.
    """
    lines: dict[object, list[str]] = {}
    for name, run in runs.items():
        lines.setdefault(context(run) if is_finished(run) else name, []).append(name)
    cells = group_runs(list(runs.values()))
    labels = {context(next(iter(cell.runs.values()))): name_cell(cell, list(cell.labels)) for cell in cells}
    groups = [{name: runs[name] for name in names} for names in lines.values()]
    stems = Counter(_stem(list(mine)) for mine in groups)
    found = []
    for mine in groups:
        if len(by_seed(mine.values())) < len(mine) or len(mine) == 1:
            found += [SeedGroup(name, {name: run}) for name, run in mine.items()]
            continue
        stem = _stem(list(mine))
        told = stem if stem and stems[stem] == 1 else labels[context(next(iter(mine.values())))]
        found.append(SeedGroup(f"{told} ({len(mine)} seeds)".lstrip(), mine))
    return found


def _stem(names: Sequence[str]) -> str:
    """Return what all names begin with, if they differ in nothing but a number at their end; else nothing."""
    ends = [re.fullmatch(r"(.*?)[\W_]*(?:seed)?[\W_]*\d+", name) for name in names]
    stems = {end[1] for end in ends if end}
    return stems.pop() if len(stems) == 1 and all(ends) else ""
