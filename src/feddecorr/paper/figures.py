"""Figures of a study's runs: curves over rounds and spectra, with a band between seeds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from statistics import fmean

from feddecorr.paper.grid import GridResults
from feddecorr.paper.tables import Make
from feddecorr.report.figures import draw
from feddecorr.report.picture import SPECTRUM, THRESHOLD, Panel, Picture, Series, band_series, line_styles, mean_series
from feddecorr.results import curves
from feddecorr.results.groups import Cell, split_by
from feddecorr.results.names import symbol
from feddecorr.results.sample import PERCENT, factor_of
from feddecorr.results.study import Figure, Finding
from feddecorr.results.summary import STATISTICS

Lines = Mapping[str, Sequence[Cell]]
"""The cells of each line of a figure, by its name."""

BETWEEN_SEEDS = "Means over seeds; bands reach one standard deviation up and down."


def per_round(measure: str, *, panels: Sequence[str], what: str) -> Make:
    """Make a figure of a measure over the rounds for each panel, with a line for each other combination."""
    return _figures(
        f"{what.capitalize()} per round",
        curves.per_round(measure, factor_of(measure)),
        panels,
        ("round", what + " (%)" * (measure in PERCENT)),
    )


def spectra(*, panels: Sequence[str]) -> Make:
    """Make a figure of the global models' spectra for each panel, as in the paper's figure 2a."""
    return _figures("Global models", curves.spectrum, panels, SPECTRUM)


def client_spectra(*, panels: Sequence[str]) -> Make:
    """Make a figure of the local spectra of the first client for each panel, as in the paper's figure 2b."""
    return _figures("Local models of the first client", curves.first_client_spectrum, panels, SPECTRUM)


def all_client_spectra(*, panels: Sequence[str]) -> Make:
    """Make a figure for each panel of the local spectra, each averaged over all clients."""
    return _figures("Local models, mean over all clients", curves.mean_client_spectrum, panels, SPECTRUM)


def over(axis: str, *, panels: Sequence[str], measure: str = "accuracy") -> Make:
    """Make a figure of a measure over the values of a label for each panel.

    Accuracy is the mean of the last ten rounds, or that of the last where there are too few; others are of the last.
    """
    what = measure.replace("_", " ")

    def make(results: GridResults) -> list[Finding]:
        short = any(cell.runs and not cell.sample("last_ten").values for cell in results.cells)
        statistic = "last" if short or measure != "accuracy" else "last_ten"

        def series(lines: Lines) -> list[Series]:
            return [_over(axis, name, line, statistic, measure) for name, line in lines.items()]

        axes = (symbol(axis), f"{what}{' (%)' * (measure in PERCENT)}, {STATISTICS[statistic]}")
        return _by_panel(f"{what.capitalize()} by {axis}", axes, results, panels, series, along=axis)

    return make


def _figures(what: str, curve: curves.Curve, panels: Sequence[str], axes: tuple[str, str]) -> Make:
    def series(lines: Lines) -> list[Series]:
        return mean_series(
            {name: [curve(run) for cell in line for run in cell.runs.values()] for name, line in lines.items()}
        )

    return lambda results: _by_panel(what, axes, results, panels, series)


def _by_panel(
    title: str,
    axes: tuple[str, str],
    results: GridResults,
    panels: Sequence[str],
    series: Callable[[Lines], list[Series]],
    along: str = "",
) -> list[Finding]:
    """Return a figure for each panel, whose lines are named by the labels that differ between them."""
    found: list[Finding] = []
    for panel, cells in split_by(results.cells, panels):
        labels = cells[0].labels
        differ = [name for name in labels if len({cell.labels[name] for cell in cells}) > 1]
        rest = [name for name in differ if name not in (along, *panels)]
        lines = dict(split_by(cells, rest))
        shown = line_styles({name: line[0].named(rest) for name, line in lines.items()})
        drawn = [replace(each, colour=shown[each.name][0], dash=shown[each.name][1]) for each in series(lines)]
        found.append(_figure(f"{title}: {panel}", axes, drawn))
    return found


def _figure(title: str, axes: tuple[str, str], series: Sequence[Series]) -> Figure:
    """Return a figure of the series that have values; its note names the others."""
    absent = [each.name for each in series if not each.x]
    note = f"{BETWEEN_SEEDS} Missing: {'; '.join(absent)}." if absent else BETWEEN_SEEDS
    return figure(title, axes, series, note)


def figure(title: str, axes: tuple[str, str], series: Sequence[Series], note: str) -> Figure:
    """Return a figure of one panel; of spectra, with the threshold."""
    threshold = THRESHOLD if axes == SPECTRUM else None
    return Figure(title, partial(draw, Picture("", "", "", axes, [Panel("", series)], threshold=threshold)), note)


def _over(axis: str, name: str, line: Sequence[Cell], statistic: str, measure: str) -> Series:
    samples = [(float(cell.labels[axis]), cell.sample(statistic, measure).times(factor_of(measure))) for cell in line]
    known = [(place, list(sample.values.values())) for place, sample in samples if sample.values]
    means, spread = [fmean(values) for _, values in known], [curves.spread(values) for _, values in known]
    return band_series(name, ([place for place, _ in known], means, spread))
