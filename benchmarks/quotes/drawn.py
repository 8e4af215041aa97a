"""The pictures of the reproduction's page, of the recorded runs."""

from __future__ import annotations

from benchmarks.quotes.pairs import ALPHA, main_runs
from benchmarks.quotes.records import ROOT
from feddecorr.report.printed import save
from feddecorr.sweeps.printed_figures import FIGURES, FigureData

PICTURES: dict[str, tuple[str, str, tuple[float, ...]]] = {
    "spectra": ("spectra", "small", ()),
    "local-spectra": ("local-spectra", "small", ()),
    "accuracy": ("accuracy", "small", (0.01, 0.25)),
    "accuracy-many": ("accuracy", "many", (0.01, 0.25)),
}
"""By file name: the figure, the scale of its runs, and the alphas that it leaves out."""


def draw() -> None:
    """Draw all of them."""
    for name, (figure, scale, left_out) in PICTURES.items():
        runs = [run for run in main_runs(scale) if run.experiment["partition"]["alpha"] not in left_out]
        save(FIGURES[figure].make(FigureData(runs, panels=ALPHA)), ROOT / "docs" / "reproduction" / f"{name}.svg")
