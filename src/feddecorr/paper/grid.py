"""A study whose runs are all combinations of a few words."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from feddecorr.config.experiment import Experiment
from feddecorr.config.overrides import read_overrides
from feddecorr.paper.scales import METHODS, REGULARIZERS, StudyScale, find_scale
from feddecorr.results.groups import Cell, gather
from feddecorr.results.study import Arm, Finding, Label, Labels, Result, Study
from feddecorr.settings.flat import parse_settings
from feddecorr.settings.options import RunOptions

STANDARDIZED = "standardized filters"
"""The label of weight standardization."""

AXES: dict[str, Callable[[StudyScale, Label], str]] = {
    "data": lambda scale, value: scale.data.get(str(value), f"data={value}"),
    "model": lambda scale, value: scale.models.get(str(value), f"model={value}"),
    "norm": lambda _, value: f"model.norm={value}",
    "filters": lambda _, value: f"model.weight_standardization={str(value == STANDARDIZED).lower()}",
    "head": lambda _, value: f"model.head={value}",
    "statistics": lambda _, value: "model.norm=group" if value == "none" else f"batchnorm={value}",
    "alpha": lambda _, value: f"partition.alpha={value}",
    "classes": lambda _, value: f"partition=classes partition.per_client={value}",
    "clients": lambda scale, value: scale.clients.get(value, f"clients={value}"),
    "epochs": lambda _, value: f"training.epochs={value}",
    "schedule": lambda _scale, _value: "",  # which rounds it has is the scale's
    "method": lambda _, value: METHODS.get(str(value), f"method={value}"),
    "regularizer": lambda _, value: REGULARIZERS.get(str(value), f"regularizers={value}"),
    "normalization": lambda _, value: f"regularizers=feddecorr regularizers.feddecorr.normalization={value}",
    "beta": lambda _, value: (
        f"regularizers=feddecorr regularizers.feddecorr.beta={value}" if value else "regularizers=none"
    ),
}
"""What a label means, in words of the command line, in the order in which they are read.

A label that is not here is a setting itself: `training.lr` with 0.1 is `training.lr=0.1`.
"""


def everything(_labels: Labels) -> bool:
    """Leave nothing out."""
    return True


def vary(*data: Label, method: Sequence[Label] = ("fedavg",), **axes: Sequence[Label]) -> dict[str, Sequence[Label]]:
    """Return the axes of a study: data sets, methods, and others in the order in which they are given."""
    return {"data": data, "method": method, **axes}


@dataclass(frozen=True)
class Grid(Study):
    """Runs for every combination of labels, and tables and figures of them.

    `axes` are the labels and their values, `makes` turns the results into tables and figures, `settings` are words for
    all runs, and `wants` says which combinations are run.
    """

    name: str
    shows: str
    place: str
    axes: Mapping[str, Sequence[Label]]
    makes: Sequence[Callable[[GridResults], list[Finding]]]
    settings: str = ""
    wants: Callable[[Labels], bool] = everything

    def arms(self, scale: str, seeds: int) -> list[Arm]:
        """Return a run for each combination and seed; a seed is complete before the next one begins."""
        combinations = list(self.combinations(scale))
        return [
            Arm({**labels, "seed": seed}, *settings_of(find_scale(scale), labels, f"{self.settings} seed={seed}"))
            for seed in range(seeds)
            for labels in combinations
        ]

    def combinations(self, scale: str) -> Iterator[Labels]:
        """Yield the labels of all runs, without seeds."""
        axes = {axis: find_scale(scale).values(self.name, axis, own) for axis, own in self.axes.items()}
        for values in product(*axes.values()):
            labels = dict(zip(axes, values, strict=True))
            if self.wants(labels):
                yield labels

    def findings(self, results: Sequence[Result], scale: str) -> list[Finding]:
        """Return all tables and figures."""
        found = GridResults(self, scale, results)
        return [finding for make in self.makes for finding in make(found)]


class GridResults:
    """The results of a grid at a scale, from which its tables and figures are made.

    `paper_data` are the data sets on which the study was declared, whatever it ran on at this scale.
    """

    def __init__(self, study: Grid, scale: str, results: Sequence[Result]) -> None:
        self.scale = scale
        self.paper_data = study.axes.get("data", ())
        self.results = results
        self.cells: list[Cell] = gather(results)

    @property
    def note(self) -> str:
        """What the scale means, and each departure from the paper's text that any of the runs has."""
        scale = find_scale(self.scale)
        said = [when.says for when in scale.when if any(when.applies(cell.labels) for cell in self.cells)]
        departures = "; ".join(dict.fromkeys(said))
        return f"{scale.says} {departures[:1].upper()}{departures[1:]}." if departures else scale.says


def settings_of(scale: StudyScale, labels: Labels, settings: str = "") -> tuple[Experiment, RunOptions]:
    """Return what labels mean at a scale: every run's words, the labels', the special, the study's."""
    known = [AXES[axis](scale, labels[axis]) for axis in AXES if axis in labels]
    others = [f"{axis}={value}" for axis, value in labels.items() if axis not in AXES]
    special = [when.words for when in scale.when if when.applies(labels)]
    return parse_settings(read_overrides(" ".join([scale.every, *known, *others, *special, settings]).split()))
