"""The figures of the tutorial and of the reproduction's page, drawn from the recorded runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from benchmarks.quotes import first_hour
from benchmarks.quotes.judged import judged
from benchmarks.quotes.moving import draw_moving
from benchmarks.quotes.pairs import ALPHA, main_runs
from benchmarks.quotes.records import ROOT
from feddecorr.paper.claims.figures import forest, gains_by_round
from feddecorr.report.picture import Picture
from feddecorr.report.printed import save
from feddecorr.report.run_figures import FIGURES, FigureData

FOLDER = ROOT / "docs"


def _of_runs(figure: str, scale: str, left_out: tuple[float, ...] = ()) -> Callable[[], Picture]:
    """Return what makes a figure of the main comparison at a scale, without some alphas."""

    def make() -> Picture:
        runs = [run for run in main_runs(scale) if run.experiment["partition"]["alpha"] not in left_out]
        return FIGURES[figure](FigureData(runs, panels=ALPHA))

    return make


PICTURES: dict[str, Callable[[], Picture]] = {
    "tutorial/spectra": first_hour.spectra,
    "tutorial/accuracy": first_hour.accuracy,
    "reproduction/spectra": _of_runs("spectra", "small"),
    "reproduction/local-spectra": _of_runs("local-spectra", "small"),
    "reproduction/accuracy": _of_runs("accuracy", "small", (0.01, 0.25)),
    "reproduction/accuracy-many": _of_runs("accuracy", "many", (0.01, 0.25)),
    "reproduction/forest": lambda: forest(judged()),
    "reproduction/gains": lambda: gains_by_round(judged()),
}
"""By their place in the documentation."""


def draw(folder: Path = FOLDER) -> None:
    """Draw all of them."""
    for name, make in PICTURES.items():
        save(make(), folder / f"{name}.svg")
    draw_moving(folder / "moving" / "spectra.svg")
