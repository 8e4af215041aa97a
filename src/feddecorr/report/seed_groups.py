"""The lines of a report: one for each run, or one for all seeds of the same settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from feddecorr.report.figures import Band
from feddecorr.studies.contexts import by_seed, context, is_finished
from feddecorr.studies.curves import Points, band, spread
from feddecorr.studies.groups import group_runs, name_cell
from feddecorr.studies.summary import Summary


@dataclass(frozen=True)
class Line:
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


def group_seeds(runs: Mapping[str, Summary]) -> list[Line]:
    """Return the lines in the order of their first runs.

    Runs that are not done, and copies of the same run, stay by themselves: a mean would hide how far each has come.
    """
    lines: dict[object, list[str]] = {}
    for name, run in runs.items():
        lines.setdefault(context(run) if is_finished(run) else name, []).append(name)
    cells = group_runs(list(runs.values()))
    labels = {context(next(iter(cell.runs.values()))): name_cell(cell, list(cell.labels)) for cell in cells}
    found = []
    for names in lines.values():
        mine = {name: runs[name] for name in names}
        if len(by_seed(mine.values())) < len(mine) or len(mine) == 1:
            found += [Line(name, {name: run}) for name, run in mine.items()]
        else:
            found.append(Line(_name(labels[context(runs[names[0]])], names), mine))
    return found


def _name(label: str, names: Sequence[str]) -> str:
    seeds = f"{len(names)} seeds"
    return f"{label} ({seeds})" if label else seeds
