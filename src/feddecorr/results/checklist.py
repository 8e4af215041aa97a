"""What reviewers ask of a comparison: accuracy, rounds to a target, collapse and cost of each arm, paired by seed."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean
from typing import Any

from feddecorr.core.text import latex, markdown
from feddecorr.results.curves import local_values, per_round, seconds_per_round
from feddecorr.results.groups import MISSING, NOT_MEASURED, Cell, covers, group_by, group_runs, is_finished, sample_runs
from feddecorr.results.names import columns as named_columns
from feddecorr.results.pairing import difference_numbers
from feddecorr.results.sample import Sample
from feddecorr.results.study import Label, Table
from feddecorr.results.summary import STATISTICS, Summary, smooth


@dataclass(frozen=True)
class Column:
    """What a number is called, how it is read of a run and of the target, and the unit and digits it is shown in."""

    heading: str
    read: Callable[[Summary, float], float | None]
    digits: int = 2
    factor: float = 1.0


def _statistic(name: str) -> Column:
    return Column(STATISTICS[name], lambda run, _: run.statistic(name), factor=100.0)


def _last(heading: str, measure: str, digits: int = 3, factor: float = 1.0) -> Column:
    return Column(heading, lambda run, _: run.statistic("last", measure), digits, factor)


def _local_rank(run: Summary, _: float) -> float | None:
    values = local_values(run, "effective_rank")
    return fmean(values) if values else None


ROUNDING = 1e-9


def rounds_to(run: Summary, target: float) -> float | None:
    """Return the first evaluated round after which the smoothed accuracy is that high; None if it never is."""
    return next((number for number, value in _smoothed(run) if value >= target - ROUNDING), None)


def _smoothed(run: Summary) -> list[tuple[int, float]]:
    return smooth([(int(number), value) for number, value in per_round("accuracy")(run).items()])


PARTS: Mapping[str, Mapping[str, Column]] = {
    "Accuracy (%)": {
        **{name: _statistic(name) for name in ("last", "last_ten", "best", "smoothed")},
        "target": Column("target", lambda _, target: target, 0, 100.0),
        "rounds_to_target": Column("rounds to it", rounds_to, 1),
    },
    "Representations": {
        "effective_rank": _last("effective rank", "effective_rank", 1),
        "local_effective_rank": Column("local effective rank", _local_rank, 1),
        "nc1_variability": _last("NC1", "nc1_variability"),
        "nc2_norm_variation": _last("NC2 norms", "nc2_norm_variation"),
        "nc2_cosine_gap": _last("NC2 angles", "nc2_cosine_gap"),
        "nc3_duality_gap": _last("NC3", "nc3_duality_gap"),
        "nc4_disagreement": _last("NC4", "nc4_disagreement"),
        "dead_features": _last("dead features", "dead_features", 1),
        "classifier_effective_rank": _last("rank of the classifier", "classifier_effective_rank", 2),
    },
    "Cost of a round": {
        "seconds": Column("seconds", lambda run, _: seconds_per_round(run)),
        "flops": _last("GFLOP", "flops", 1, 1e-9),
        "received": _last("kB from a client", "received", 1, 1e-3),
        "sent": _last("kB to a client", "sent", 1, 1e-3),
    },
}
"""The columns by table and by name."""

COLUMNS = {name: column for part in PARTS.values() for name, column in part.items()}

NOTES = {
    "Accuracy (%)": "Of the global model; smoothed as the protocol's tables have it, and rounds until the smoothed "
    "accuracy reaches the target.",
    "Representations": "Of the last round, on the test images: effective ranks of the global model's representations, "
    "of local models before they were averaged (mean over clients), and of the classifier's weights.",
    "Cost of a round": "Wall clock with evaluation, perhaps with other runs on the same machine; operations of local "
    "training; bytes of one client's tensors.",
}
PAIRED = (
    "Mean ± standard deviation over seeds; below a second arm, its paired differences to the first with 95 % intervals."
)


@dataclass(frozen=True)
class ChecklistRow:
    """An arm: its runs by seed, the first arm of its group, if it is not that itself, and the group's target."""

    cell: Cell
    base: Cell | None
    target: float

    @cached_property
    def samples(self) -> dict[str, Sample]:
        """All numbers by column, over the seeds that have them."""
        return _read(self.cell, self.target)

    @cached_property
    def differences(self) -> dict[str, Sample]:
        """Those to the first arm, over the seeds that both have."""
        first = {} if self.base is None else _read(self.base, self.target)
        return {name: self.samples[name].minus(found) for name, found in first.items() if name != "target"}

    def text(self, name: str) -> str:
        """Return a number as a cell of a table, with how many seeds have it if others do not."""
        column, sample = COLUMNS[name], self.samples[name]
        if not self.cell.runs or not sample.values:
            return NOT_MEASURED if self.cell.runs else MISSING
        some = f" ({len(sample)} of {len(self.cell.runs)})" if len(sample) < len(self.cell.runs) else ""
        shown = sample if name != "target" else Sample(dict([next(iter(sample.values.items()))]))
        return shown.times(column.factor).text(column.digits) + some

    def difference_text(self, name: str) -> str:
        """Return a paired difference with its interval as a cell of a table."""
        column, sample = COLUMNS[name], self.differences.get(name, Sample({}))
        shown = sample.times(column.factor)
        if not sample.values:
            return "" if name == "target" else NOT_MEASURED
        interval = f" [{shown.low:+.{column.digits}f}, {shown.high:+.{column.digits}f}]" if len(sample) > 1 else ""
        return f"{shown.mean:+.{column.digits}f}{interval}"

    def to_dict(self) -> dict[str, Any]:
        """Return it ready for JSON: fractions, operations and bytes as they are recorded."""
        return {
            "name": self.cell.name(),
            "labels": self.cell.labels,
            "seeds": sorted(self.cell.runs),
            "target": self.target if math.isfinite(self.target) else None,
            "values": {
                name: {
                    "mean": sample.mean if sample.values else None,
                    "deviation": sample.deviation if len(sample) > 1 else None,
                    "seeds": len(sample),
                }
                for name, sample in self.samples.items()
                if name != "target"
            },
            "differences": {name: difference_numbers(sample) for name, sample in self.differences.items()},
        }


def _read(cell: Cell, target: float) -> dict[str, Sample]:
    def reader(column: Column) -> Callable[[Summary], float | None]:
        def read(run: Summary) -> float | None:
            found = column.read(run, target)
            return found if found is not None and math.isfinite(found) else None

        return read

    return {name: sample_runs(cell.runs, reader(column)) for name, column in COLUMNS.items()}


def checklist(
    cells: Sequence[Cell], *, pair: str = "regularizers", target: float | None = None, alike: Sequence[str] = ()
) -> list[ChecklistRow]:
    """Return a row for each arm; the first of those that differ in `pair` alone is what the others are compared with.

    Cells whose labels named in `alike` agree share a target. By default it is the smoothed accuracy that the first of
    them ends with, in whole percent, rounded down.
    """
    goals: dict[tuple[Label, ...], float] = {}
    rows = []
    groups = group_by(cells, lambda cell: tuple(item for item in cell.labels.items() if not covers(pair, item[0])))
    for arms in groups.values():
        setting = tuple(arms[0].labels[name] for name in alike)
        if setting not in goals or not math.isfinite(goals[setting]):
            goals[setting] = target if target is not None else _goal(arms[0])
        rows += [ChecklistRow(cell, arms[0] if place else None, goals[setting]) for place, cell in enumerate(arms)]
    return rows


def _goal(cell: Cell) -> float:
    ends = [curve[-1][1] for run in cell.runs.values() if (curve := _smoothed(run))]
    return math.floor(100 * fmean(ends) + ROUNDING) / 100 if ends else math.inf


def checklist_of_runs(
    summaries: Sequence[Summary], *, pair: str = "regularizers", target: float | None = None
) -> list[ChecklistRow]:
    """Return the rows of any finished runs; runs on other data or splits have another target."""
    finished = list(filter(is_finished, summaries))
    cells = group_runs(finished) if finished else []
    setting = [name for name in (cells[0].labels if cells else ()) if name.split(".")[0] in SETTINGS]
    return checklist(cells, pair=pair, target=target, alike=setting)


SETTINGS = ("data", "partition", "clients", "participation")
"""What accuracies depend on whatever the method is."""


def tables(rows: Sequence[ChecklistRow]) -> list[Table]:
    """Return the three tables: a line for each arm, and one for its differences to the first."""
    labels = [(row.cell.labels, row.cell.named()) for row in rows]
    headings, words = named_columns(labels) if rows else ([], [])
    found = []
    for title, part in PARTS.items():
        lines = []
        for row, names in zip(rows, words, strict=True):
            lines.append([*names, row.cell.count, *map(row.text, part)])
            if row.base is not None:
                lines.append(["difference", *[""] * (len(names) - 1), "", *map(row.difference_text, part)])
        shown = [*headings, "seeds", *(column.heading for column in part.values())]
        found.append(Table(title, shown, lines, f"{NOTES[title]} {PAIRED}"))
    return found


def to_markdown(found: Sequence[Table]) -> str:
    """Return the tables in Markdown, each below its title."""
    parts = []
    for table in found:
        lines = [list(map(markdown, table.headings)), ["---"] * len(table.headings)]
        lines += [list(map(markdown, row)) for row in table.rows]
        parts += [f"## {markdown(table.title)}", table.note, "\n".join(f"| {' | '.join(line)} |" for line in lines)]
    return "\n\n".join(parts)


def to_latex(found: Sequence[Table]) -> str:
    """Return the tables in LaTeX, for the package booktabs."""

    def numbers(text: str) -> str:
        return re.sub(r"-(?=\d)", "$-$", latex(text).replace("±", r"$\pm$"))

    parts = []
    for table in found:
        words = len(table.headings) - len(PARTS[table.title])
        lines = [
            f"% {table.title}: {table.note}",
            rf"\begin{{tabular}}{{{'l' * words}{'r' * len(PARTS[table.title])}}}",
        ]
        lines += [r"\toprule", rf"{' & '.join(map(latex, table.headings))} \\", r"\midrule"]
        lines += [rf"{' & '.join([*map(latex, row[:words]), *map(numbers, row[words:])])} \\" for row in table.rows]
        parts.append("\n".join([*lines, r"\bottomrule", r"\end{tabular}"]))
    return "\n\n".join(parts)
