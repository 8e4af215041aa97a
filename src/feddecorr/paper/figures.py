"""What can be made of a study's runs, as figures: curves over rounds and spectra, with a band between seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from statistics import fmean

from feddecorr.paper.grid import GridResults
from feddecorr.paper.tables import Make
from feddecorr.report import figures
from feddecorr.results import curves
from feddecorr.results.cells import Cell, split_by
from feddecorr.results.curves import Band
from feddecorr.results.study import Figure, Finding
from feddecorr.results.summary import STATISTICS

BETWEEN_SEEDS = "Means over seeds; bands reach one standard deviation up and down."


def per_round(measure: str, *, panels: Sequence[str], what: str) -> Make:
    """Make a figure of a measure over the rounds for each panel, with a line for each other combination."""
    return _figures(f"{what.capitalize()} per round", curves.per_round(measure), panels, ("round", what))


def spectra(*, panels: Sequence[str]) -> Make:
    """Make a figure of the global models' spectra for each panel, as in the paper's figure 2a."""
    return _figures("Global models", curves.spectrum, panels, SPECTRUM)


def client_spectra(*, panels: Sequence[str]) -> Make:
    """Make a figure of the local spectra of the first client for each panel, as in the paper's figure 2b."""
    return _figures("Local models of the first client", curves.first_client_spectrum, panels, SPECTRUM)


def all_client_spectra(*, panels: Sequence[str]) -> Make:
    """Make a figure for each panel of the local spectra, each averaged over all clients."""
    return _figures("Local models, mean over all clients", curves.mean_client_spectrum, panels, SPECTRUM)


def over(axis: str, *, panels: Sequence[str]) -> Make:
    """Make a figure of the accuracy over the values of a label for each panel.

    It is the mean of the last ten rounds, or that of the last where there are too few.
    """

    def make(seen: GridResults) -> list[Finding]:
        short = any(cell.runs and not cell.sample("last_ten").values for cell in seen.cells)
        statistic = "last" if short else "last_ten"
        found: list[Finding] = []
        for title, cells in split_by(seen.cells, panels):
            rest = [name for name in cells[0].labels if name not in (axis, *panels) and _differs(cells, name)]
            lines: dict[str, list[Cell]] = {}
            for cell in cells:
                lines.setdefault(cell.name(rest) or "accuracy", []).append(cell)
            drawn = {name: _over(axis, line, statistic) for name, line in lines.items()}
            draw = partial(figures.bands, _some(drawn), axis, f"accuracy, {STATISTICS[statistic]}")
            found.append(Figure(f"Accuracy by {axis}: {title}", draw, _note(drawn)))
        return found

    return make


SPECTRUM = ("k, index of the singular value", "log of the k-th singular value")


def _figures(what: str, curve: curves.Curve, panels: Sequence[str], axes: tuple[str, str]) -> Make:
    def make(seen: GridResults) -> list[Finding]:
        found: list[Finding] = []
        for title, cells in split_by(seen.cells, panels):
            rest = [name for name in cells[0].labels if name not in panels and _differs(cells, name)]
            lines = {
                cell.name(rest) or title: curves.band([curve(run) for run in cell.runs.values()]) for cell in cells
            }
            draw = partial(figures.bands, _some(lines), *axes, threshold=axes is SPECTRUM)
            found.append(Figure(f"{what}: {title}", draw, _note(lines)))
        return found

    return make


def _differs(cells: Sequence[Cell], name: str) -> bool:
    return len({cell.labels[name] for cell in cells}) > 1


def _over(axis: str, line: Sequence[Cell], statistic: str) -> Band:
    samples = [(float(cell.labels[axis]), cell.sample(statistic)) for cell in line]
    known = [(place, sample) for place, sample in samples if sample.values]
    values = [list(sample.values.values()) for _, sample in known]
    return [place for place, _ in known], [fmean(each) for each in values], [curves.spread(each) for each in values]


def _some(lines: Mapping[str, Band]) -> dict[str, Band]:
    return {name: band for name, band in lines.items() if band[0]}


def _note(lines: Mapping[str, Band]) -> str:
    absent = [name for name, band in lines.items() if not band[0]]
    return f"{BETWEEN_SEEDS} Missing: {'; '.join(absent)}." if absent else BETWEEN_SEEDS
