"""The paper's figures of any runs, as pictures to print: a line for what differs, with a band between seeds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from feddecorr.collapse.spectrum import LOG_TAU
from feddecorr.errors import UserError
from feddecorr.report.colours import colours
from feddecorr.report.picture import Panel, Picture, Series
from feddecorr.results import curves
from feddecorr.results.cells import Cell
from feddecorr.results.groups import group_runs, name_cell
from feddecorr.results.local_models import local_spectra
from feddecorr.results.summary import Summary

BETA = "regularizers.feddecorr.beta"
SPECTRUM = ("k, index of the singular value", "log of the k-th singular value")
UNCOLOURED = ""
"""Until all panels are known."""
THRESHOLD = (LOG_TAU, "log τ = −2")


@dataclass(frozen=True)
class FigureData:
    """What a figure is drawn of: records of runs, where those lie that are here whole, and what makes a panel."""

    summaries: Sequence[Summary]
    directories: Mapping[str, Path] = field(default_factory=dict)
    panels: Sequence[str] = ()

    def cells(self) -> list[Cell]:
        """Return the runs by what differs between them, seeds together."""
        return group_runs(self.summaries, self.panels)

    def by_panel(self) -> dict[str, list[Cell]]:
        """Return the cells by the name of their panel."""
        found: dict[str, list[Cell]] = {}
        for cell in self.cells():
            found.setdefault(name_cell(cell, self.panels), []).append(cell)
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
            Panel(title, _lines({_tell(cell, data): [curve(run) for run in cell.runs.values()] for cell in cells}))
            for title, cells in data.by_panel().items()
        ]
        if not any(panel.lines for panel in panels):
            raise UserError(f"no run has recorded what this figure shows: {need}")
        return Picture(file, file, "", axes, _coloured(panels), threshold=threshold)

    return make


def _lines(groups: Mapping[str, Sequence[curves.Points]]) -> list[Series]:
    found = []
    for name, points in groups.items():
        places, means, spread = curves.band(points)
        if places:
            found.append(Series(places, means, UNCOLOURED, name, spread=spread if any(spread) else ()))
    return found


def _coloured(panels: Sequence[Panel]) -> list[Panel]:
    """Give lines of one name the same colour in all panels."""
    names = dict.fromkeys(line.name for panel in panels for line in panel.lines)
    palette = dict(zip(names, colours(len(names)), strict=True))
    return [
        replace(panel, lines=[replace(line, colour=palette[line.name]) for line in panel.lines]) for panel in panels
    ]


def _tell(cell: Cell, data: FigureData) -> str:
    """Name a line; where nothing differs, after the method and its regularizers."""
    if name := name_cell(cell, data.lines()):
        return name
    run = next(iter(cell.runs.values()))
    if not run.is_known:
        return run.digest
    return "+".join([str(run.experiment["method"]["name"]), *run.experiment["regularizers"]])


def _client_spectra(data: FigureData) -> Picture:
    """MakePicture a panel for each client, of the runs of the first seed."""
    tables = {_tell(cell, data): local_spectra(cell.runs[min(cell.runs)]) for cell in data.cells()}
    clients = sorted({client for table in tables.values() for client in table}, key=int)
    if not clients:
        raise UserError("no run has recorded its clients' models: evaluation.clients=true does")
    panels = [
        Panel(
            f"client {client}",
            _lines({name: [curves.by_index(table.get(client, []))] for name, table in tables.items()}),
        )
        for client in clients
    ]
    return Picture("client-spectra", "client-spectra", "", SPECTRUM, _coloured(panels), threshold=THRESHOLD)


def _local_loss(data: FigureData) -> Picture:
    """MakePicture a panel for each group of runs, with a line for each client of the first seed."""
    panels = []
    for cell in data.cells():
        terms = cell.runs[min(cell.runs)].local_terms
        clients = [client for client in sorted(terms, key=int) if "feddecorr" in terms[client]]
        losses = {f"client {client}": terms[client]["feddecorr"] for client in clients}
        lines = [Series(range(1, len(loss) + 1), loss, UNCOLOURED, name) for name, loss in losses.items()]
        if lines:
            panels.append(Panel(name_cell(cell, list(cell.labels)), lines))
    if not panels:
        raise UserError("no run has recorded FedDecorr's loss within local epochs: evaluation.epochs=true does")
    return Picture("loss", "loss", "", ("local epoch", "β · L_FedDecorr"), _coloured(panels))


def _over_beta(data: FigureData) -> Picture:
    """MakePicture a curve of the accuracy over beta; runs without FedDecorr have beta 0."""
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
                    lines.setdefault(name_cell(cell, rest) or "accuracy", []).append({beta: 100 * value})
        panels[title] = _over(lines)
    if len({x for found in panels.values() for line in found for x in line.x}) < 2:
        raise UserError(f"there are no runs with different {BETA} and otherwise the same settings")
    drawn = [Panel(title, found) for title, found in panels.items()]
    return Picture("beta", "beta", "", ("β", "accuracy (%), last ten rounds"), _coloured(drawn))


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
        spread = [deviations[0] for *_, deviations in bands]
        means = [means[0] for _, means, _ in bands]
        found.append(Series(places, means, UNCOLOURED, name, spread=spread if any(spread) else ()))
    return found


def _labels(data: FigureData) -> Picture:
    """MakePicture a panel for each split."""
    from feddecorr.runs.directory import RunDirectory  # noqa: PLC0415 - PyTorch is loaded when it is needed

    panels: dict[bytes, Panel] = {}
    for cell in data.cells():
        run = RunDirectory.open(data.whole(cell))
        counts = run.roster().labels
        if counts is None:
            raise UserError(f"{run.path}: the server was not told who holds which labels")
        table = counts.table().T.astype(np.float64)
        names = [str(client) for client in range(counts.clients)], [str(name) for name in run.federation().classes]
        panels.setdefault(table.tobytes(), Panel(name_cell(cell, _of_data(cell)), matrix=table, names=names))
    return Picture("labels", "labels", "", ("client", "class"), list(panels.values()))


def _of_data(cell: Cell) -> list[str]:
    return [name for name in cell.labels if name.partition(".")[0] in ("data", "partition", "clients")]


def _sphere(data: FigureData) -> Picture:
    """MakePicture a panel for each group of runs, of the first seed's newest global model."""
    from feddecorr.report.sphere_points import sphere_points  # noqa: PLC0415
    from feddecorr.runs.directory import RunDirectory  # noqa: PLC0415 - PyTorch is loaded when it is needed
    from feddecorr.runs.evaluator_inputs import Wanted  # noqa: PLC0415
    from feddecorr.runs.round_diagnosis import examine  # noqa: PLC0415

    panels = []
    for cell in data.cells():
        directory = data.whole(cell)
        (found,) = examine(RunDirectory.open(directory), Wanted(), directory.name, lambda _: None).diagnoses
        cloud = {f"class {label}": points for label, points in sphere_points(found).items()}
        panels.append(Panel(_tell(cell, data), cloud=cloud))
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
    "labels": FigureKind("who holds which labels", _labels),
    "sphere": FigureKind("representations on the unit sphere (figure 1)", _sphere),
}
"""All figures by name."""
