"""The paper's figures of any runs: a line for each combination of settings, with a band over seeds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from statistics import fmean

import numpy as np

from feddecorr.errors import UserError
from feddecorr.report.diagnosis_page import sphere_points
from feddecorr.report.picture import (
    SPECTRUM,
    THRESHOLD,
    LineStyle,
    Panel,
    Picture,
    Series,
    band_series,
    line_styles,
    mean_series,
)
from feddecorr.results import curves
from feddecorr.results.checklist import COLUMNS, ChecklistRow
from feddecorr.results.curves import local_spectra
from feddecorr.results.groups import Cell, covers, group_runs
from feddecorr.results.names import ABSENT, shown
from feddecorr.results.summary import Summary
from feddecorr.runs.diagnosis import Wanted, examine
from feddecorr.runs.directory import RunDirectory

BETA = "regularizers.feddecorr.beta"


@dataclass(frozen=True)
class FigureData:
    """Records of runs, the directories of those that are here, and the settings by which panels are made."""

    summaries: Sequence[Summary]
    directories: Mapping[str, Path] = field(default_factory=dict)
    panels: Sequence[str] = ()

    def cells(self) -> list[Cell]:
        """Return the runs by the settings that differ, all seeds of a combination together."""
        return group_runs(self.summaries, self.panels)

    def by_panel(self) -> dict[str, list[Cell]]:
        """Return the cells by the name of their panel."""
        found: dict[str, list[Cell]] = {}
        for cell in self.cells():
            found.setdefault(cell.name(self.panels) if self.panels else "", []).append(cell)
        return found

    @cached_property
    def styles(self) -> dict[str, LineStyle]:
        """How each line is drawn, the same in all panels."""
        return line_styles({self.line(cell): cell.named(self._rest(cell)) for cell in self.cells()})

    def line(self, cell: Cell) -> str:
        """Return the name of a cell's line; one of an unknown version has the run's digest."""
        return cell.name(self._rest(cell)) or _first(cell).digest

    def _rest(self, cell: Cell) -> list[str]:
        return [name for name in cell.labels if not any(covers(panel, name) for panel in self.panels)]

    def directory(self, cell: Cell) -> Path:
        """Return the directory of a cell's first seed; refuse records, which keep neither data nor model."""
        if directory := self.directories.get(_first(cell).digest):
            return directory
        raise UserError("this figure needs the run's own directory; records (.jsonl) keep neither its data nor model")


MakePicture = Callable[[FigureData], Picture]


def _first(cell: Cell) -> Summary:
    return cell.runs[min(cell.runs)]


def _picture(name: str, axes: tuple[str, str], panels: Sequence[Panel]) -> Picture:
    return Picture(name, name, "", axes, panels, threshold=THRESHOLD if axes is SPECTRUM else None)


def _curves(name: str, curve: curves.Curve, axes: tuple[str, str], need: str) -> MakePicture:
    """Return a function that makes a figure with a curve for each group of runs; `need` says what is not recorded."""

    def make(data: FigureData) -> Picture:
        panels = [
            Panel(title, _known({data.line(cell): [curve(run) for run in cell.runs.values()] for cell in cells}, data))
            for title, cells in data.by_panel().items()
        ]
        if not any(panel.series for panel in panels):
            raise UserError(f"no run has recorded what this figure shows: {need}")
        return _picture(name, axes, panels)

    return make


def _known(groups: Mapping[str, Sequence[curves.Points]], data: FigureData) -> list[Series]:
    return [series for series in mean_series(groups, data.styles) if series.x]


def _client_spectra(data: FigureData) -> Picture:
    """Make a panel for each client, of the runs of the first seed."""
    tables = {data.line(cell): local_spectra(_first(cell)) for cell in data.cells()}
    clients = sorted({client for table in tables.values() for client in table}, key=int)
    if not clients:
        raise UserError("no run has recorded its clients' models: evaluation.clients=true does")
    panels = []
    for client in clients:
        lines = {name: [curves.by_index(table.get(client, []))] for name, table in tables.items()}
        panels.append(Panel(f"client {client}", _known(lines, data)))
    return _picture("client-spectra", SPECTRUM, panels)


def _local_loss(data: FigureData) -> Picture:
    """Make a panel for each group of runs, with a line for each client of the first seed."""
    panels = []
    for cell in data.cells():
        terms = _first(cell).local_terms
        clients = [client for client in sorted(terms, key=int) if "feddecorr" in terms[client]]
        losses = {f"client {client}": terms[client]["feddecorr"] for client in clients}
        lines = [Series(range(1, len(loss) + 1), loss, name=name) for name, loss in losses.items()]
        if lines:
            panels.append(Panel(data.line(cell), lines))
    if not panels:
        raise UserError("no run has recorded FedDecorr's loss within local epochs: evaluation.epochs=true does")
    return _picture("loss", ("local epoch", "β · L_FedDecorr"), panels)


def _over_beta(data: FigureData) -> Picture:
    """Make a curve of the accuracy over beta; runs without FedDecorr have beta 0."""
    panels = []
    for title, cells in data.by_panel().items():
        rest = [name for name in cells[0].labels if name not in (*data.panels, BETA, "regularizers")]
        lines: dict[str, dict[float, list[float]]] = {}
        for cell in cells:
            beta = _beta(next(iter(cell.runs.values())))
            found = [run.statistic("last_ten") or run.statistic("last") for run in cell.runs.values()]
            values = [100 * value for value in found if value is not None]
            if beta is not None and values:
                line = lines.setdefault(cell.name(rest) if rest else "accuracy", {})
                line[beta] = line.get(beta, []) + values
        panels.append(Panel(title, [_line(name, line) for name, line in lines.items()]))
    if len({x for panel in panels for line in panel.series for x in line.x}) < 2:
        raise UserError(f"there are no runs with different {BETA} and otherwise the same settings")
    return _picture("beta", ("β", "accuracy (%), last ten rounds"), panels)


def _line(name: str, values: Mapping[float, Sequence[float]]) -> Series:
    """Return the means of the values at each x, in a band."""
    places = sorted(values)
    means, spreads = [fmean(values[x]) for x in places], [curves.spread(values[x]) for x in places]
    return band_series(name, (places, means, spreads))


def _beta(run: Summary) -> float | None:
    """Return FedDecorr's beta, 0 without any regularizer, None with another or an unknown one."""
    if not run.is_known:
        return None
    regularizers = run.experiment["regularizers"]
    if not regularizers:
        return 0.0
    return float(regularizers["feddecorr"]["beta"]) if list(regularizers) == ["feddecorr"] else None


def _labels(data: FigureData) -> Picture:
    """Make a panel for each split."""
    panels: dict[bytes, Panel] = {}
    for cell in data.cells():
        run = RunDirectory.open(data.directory(cell))
        counts = run.roster().labels
        if counts is None:
            raise UserError(f"{run.path}: the server does not know which client holds which labels")
        table = counts.table().T.astype(np.float64)
        names = [str(client) for client in range(counts.clients)], [str(name) for name in run.federation().classes]
        panels.setdefault(
            table.tobytes(), Panel(cell.name(_of_data(cell)) if _of_data(cell) else "", matrix=table, names=names)
        )
    return _picture("labels", ("client", "class"), list(panels.values()))


def _of_data(cell: Cell) -> list[str]:
    return [name for name in cell.labels if name.partition(".")[0] in ("data", "partition", "clients")]


def _sphere(data: FigureData) -> Picture:
    """Make a panel for each group of runs, of the first seed's newest global model."""
    panels = []
    for cell in data.cells():
        directory = data.directory(cell)
        (found,) = examine(RunDirectory.open(directory), Wanted(), directory.name, lambda _: None).diagnoses
        panels.append(Panel(data.line(cell), cloud=sphere_points(found)))
    return _picture("sphere", ("", ""), panels)


DRAWN = ("last", "smoothed", "effective_rank", "local_effective_rank", "nc1_variability", "flops")
"""The columns of the checklist that are drawn."""


def draw_checklist(rows: Sequence[ChecklistRow], pair: str) -> Picture:
    """Return a panel for each of the main columns: a line for each group of arms, a point for each of them."""
    arms: dict[str, dict[int, ChecklistRow]] = {}
    names: list[str] = []
    for row in rows:
        rest = [name for name in row.cell.labels if not covers(pair, name)]
        if row.base is None:
            names.append(row.cell.name(rest) or "all runs")
        own = {name: value for name, value in row.cell.labels.items() if covers(pair, name) and value != ABSENT}
        arms.setdefault(" ".join(shown(*label) for label in own.items()) or "runs", {})[len(names) - 1] = row
    panels = []
    for column in DRAWN:
        series = [_points(name, column, found) for name, found in arms.items()]
        if any(each.x for each in series):
            panels.append(Panel(COLUMNS[column].heading, series, names=((), names)))
    if not panels:
        raise UserError("no run has recorded what the checklist shows: the global model was never evaluated")
    size = (2.2 * len(panels) + 1.5, 1.2 + 0.18 * len(names))
    return Picture("checklist", "Checklist", "", ("", ""), panels, across=len(panels), shared_x=False, size=size)


def _points(name: str, column: str, found: Mapping[int, ChecklistRow]) -> Series:
    samples = {place: row.samples[column].times(COLUMNS[column].factor) for place, row in found.items()}
    known = {place: sample for place, sample in samples.items() if sample.values}
    spread = [curves.spread(list(sample.values.values())) for sample in known.values()]
    means = [sample.mean for sample in known.values()]
    return Series(means, list(known), name=name, points=True, spread=spread, sideways=True)


EVALUATED = "the global model was never evaluated"
LOCAL = "evaluation.clients=true records the clients' models"
FIGURES: dict[str, MakePicture] = {
    "spectra": _curves("spectra", curves.spectrum, SPECTRUM, EVALUATED),  # the paper's figures 2a and 3
    "local-spectra": _curves("local-spectra", curves.first_client_spectrum, SPECTRUM, LOCAL),  # figure 2b
    "client-spectra": _client_spectra,  # figure 10
    "accuracy": _curves("accuracy", curves.per_round("accuracy", 100), ("round", "accuracy (%)"), EVALUATED),
    "rank": _curves("rank", curves.per_round("effective_rank"), ("round", "effective rank"), EVALUATED),
    "beta": _over_beta,
    "loss": _local_loss,  # figure 11
    "labels": _labels,
    "sphere": _sphere,  # figure 1
}
"""All figures by name."""
