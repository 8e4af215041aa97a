"""The paper's figures of any runs, for print: a line for each combination of settings, with a band over seeds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np

from feddecorr.errors import UserError
from feddecorr.report.diagnosis_page import sphere_points
from feddecorr.report.picture import SPECTRUM, THRESHOLD, Panel, Picture, Series, band_series, mean_series
from feddecorr.results import curves
from feddecorr.results.curves import local_spectra
from feddecorr.results.groups import Cell, group_runs
from feddecorr.results.summary import Summary
from feddecorr.runs.directory import RunDirectory
from feddecorr.runs.evaluator_inputs import Wanted
from feddecorr.runs.round_diagnosis import examine

BETA = "regularizers.feddecorr.beta"


@dataclass(frozen=True)
class FigureData:
    """What a figure shows: records of runs, the directories of those that are here, and the settings of its panels."""

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
            found.setdefault(cell.name(self.panels), []).append(cell)
        return found

    def lines(self) -> list[str]:
        """Return the settings that tell lines apart."""
        cells = self.cells()
        return [name for name in cells[0].labels if name not in self.panels]

    def whole(self, cell: Cell) -> Path:
        """Return the directory of a cell's first seed; refuse records, which keep neither data nor model."""
        first = min(cell.runs)
        if directory := self.directories.get(cell.runs[first].digest):
            return directory
        raise UserError("this figure needs the run's own directory; records (.jsonl) keep neither its data nor model")


MakePicture = Callable[[FigureData], Picture]


class FigureKind(NamedTuple):
    """A figure: a line about what it shows, and how it is made."""

    shows: str
    make: MakePicture


def _curves(file: str, curve: curves.Curve, axes: tuple[str, str], need: str) -> MakePicture:
    """Return how to make a figure of one curve for each group of runs; `need` says what records it."""
    threshold = THRESHOLD if axes is SPECTRUM else None

    def make(data: FigureData) -> Picture:
        panels = [
            Panel(title, _drawn({_name_line(cell, data): [curve(run) for run in cell.runs.values()] for cell in cells}))
            for title, cells in data.by_panel().items()
        ]
        if not any(panel.series for panel in panels):
            raise UserError(f"no run has recorded what this figure shows: {need}")
        return Picture(file, file, "", axes, panels, threshold=threshold)

    return make


def _drawn(groups: Mapping[str, Sequence[curves.Points]]) -> list[Series]:
    return [series for series in mean_series(groups) if series.x]


def _name_line(cell: Cell, data: FigureData) -> str:
    """Name a line; where nothing differs, after the method and its regularizers."""
    if name := cell.name(data.lines()):
        return name
    run = next(iter(cell.runs.values()))
    if not run.is_known:
        return run.digest
    return "+".join([str(run.experiment["method"]["name"]), *run.experiment["regularizers"]])


def _client_spectra(data: FigureData) -> Picture:
    """Make a panel for each client, of the runs of the first seed."""
    tables = {_name_line(cell, data): local_spectra(cell.runs[min(cell.runs)]) for cell in data.cells()}
    clients = sorted({client for table in tables.values() for client in table}, key=int)
    if not clients:
        raise UserError("no run has recorded its clients' models: evaluation.clients=true does")
    panels = [
        Panel(
            f"client {client}",
            _drawn({name: [curves.by_index(table.get(client, []))] for name, table in tables.items()}),
        )
        for client in clients
    ]
    return Picture("client-spectra", "client-spectra", "", SPECTRUM, panels, threshold=THRESHOLD)


def _local_loss(data: FigureData) -> Picture:
    """Make a panel for each group of runs, with a line for each client of the first seed."""
    panels = []
    for cell in data.cells():
        terms = cell.runs[min(cell.runs)].local_terms
        clients = [client for client in sorted(terms, key=int) if "feddecorr" in terms[client]]
        losses = {f"client {client}": terms[client]["feddecorr"] for client in clients}
        lines = [Series(range(1, len(loss) + 1), loss, name=name) for name, loss in losses.items()]
        if lines:
            panels.append(Panel(cell.name(list(cell.labels)), lines))
    if not panels:
        raise UserError("no run has recorded FedDecorr's loss within local epochs: evaluation.epochs=true does")
    return Picture("loss", "loss", "", ("local epoch", "β · L_FedDecorr"), panels)


def _over_beta(data: FigureData) -> Picture:
    """Make a curve of the accuracy over beta; runs without FedDecorr have beta 0."""
    panels = {}
    for title, cells in data.by_panel().items():
        rest = [name for name in cells[0].labels if name not in (*data.panels, BETA, "regularizers")]
        lines: dict[str, list[curves.Points]] = {}
        for cell in cells:
            beta = _beta(next(iter(cell.runs.values())))
            if beta is None:
                continue
            for run in cell.runs.values():
                value = run.statistic("last_ten") or run.statistic("last")
                if value is not None:
                    lines.setdefault(cell.name(rest) or "accuracy", []).append({beta: 100 * value})
        panels[title] = _over(lines)
    if len({x for found in panels.values() for line in found for x in line.x}) < 2:
        raise UserError(f"there are no runs with different {BETA} and otherwise the same settings")
    drawn = [Panel(title, found) for title, found in panels.items()]
    return Picture("beta", "beta", "", ("β", "accuracy (%), last ten rounds"), drawn)


def _beta(run: Summary) -> float | None:
    """Return FedDecorr's beta, 0 without any regularizer, None where another one is at work, or an unknown one."""
    if not run.is_known:
        return None
    regularizers = run.experiment["regularizers"]
    if not regularizers:
        return 0.0
    return float(regularizers["feddecorr"]["beta"]) if list(regularizers) == ["feddecorr"] else None


def _over(lines: Mapping[str, Sequence[curves.Points]]) -> list[Series]:
    """Return a line over single points, each of several seeds."""
    found = []
    for name, points in lines.items():
        places = sorted({place for each in points for place in each})
        bands = [curves.band([each for each in points if place in each]) for place in places]
        means, spread = [mean for _, (mean,), _ in bands], [width for *_, (width,) in bands]
        found.append(band_series(name, places, means, spread))
    return found


def _labels(data: FigureData) -> Picture:
    """Make a panel for each split."""
    panels: dict[bytes, Panel] = {}
    for cell in data.cells():
        run = RunDirectory.open(data.whole(cell))
        counts = run.roster().labels
        if counts is None:
            raise UserError(f"{run.path}: the server does not know which client holds which labels")
        table = counts.table().T.astype(np.float64)
        names = [str(client) for client in range(counts.clients)], [str(name) for name in run.federation().classes]
        panels.setdefault(table.tobytes(), Panel(cell.name(_of_data(cell)), matrix=table, names=names))
    return Picture("labels", "labels", "", ("client", "class"), list(panels.values()))


def _of_data(cell: Cell) -> list[str]:
    return [name for name in cell.labels if name.partition(".")[0] in ("data", "partition", "clients")]


def _sphere(data: FigureData) -> Picture:
    """Make a panel for each group of runs, of the first seed's newest global model."""
    panels = []
    for cell in data.cells():
        directory = data.whole(cell)
        (found,) = examine(RunDirectory.open(directory), Wanted(), directory.name, lambda _: None).diagnoses
        cloud = {f"class {label}": points for label, points in sphere_points(found).items()}
        panels.append(Panel(_name_line(cell, data), cloud=cloud))
    return Picture("sphere", "sphere", "", ("", ""), panels)


EVALUATED = "the global model was never evaluated"
LOCAL = "evaluation.clients=true records the clients' models"
FIGURES: dict[str, FigureKind] = {
    "spectra": FigureKind(
        "singular values of the global models (figures 2a and 3)",
        _curves("spectra", curves.spectrum, SPECTRUM, EVALUATED),
    ),
    "local-spectra": FigureKind(
        "singular values of the first client's model before averaging (figure 2b)",
        _curves("local-spectra", curves.first_client_spectrum, SPECTRUM, LOCAL),
    ),
    "client-spectra": FigureKind("the same, a panel for each client (figure 10)", _client_spectra),
    "accuracy": FigureKind(
        "accuracy per round",
        _curves("accuracy", curves.per_round("accuracy", 100), ("round", "accuracy (%)"), EVALUATED),
    ),
    "rank": FigureKind(
        "effective rank of the global models per round",
        _curves("rank", curves.per_round("effective_rank"), ("round", "effective rank"), EVALUATED),
    ),
    "beta": FigureKind("accuracy over FedDecorr's beta", _over_beta),
    "loss": FigureKind("FedDecorr's loss within local epochs, client by client (figure 11)", _local_loss),
    "labels": FigureKind("examples by client and class", _labels),
    "sphere": FigureKind("representations on the unit sphere (figure 1)", _sphere),
}
"""All figures by name."""
