"""Records as evidence: runs found by their settings, and pairs of them that differ in FedDecorr alone."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from feddecorr.config.overrides import flatten
from feddecorr.paper.claims.plan import Plan
from feddecorr.results.groups import Context, context, is_finished
from feddecorr.results.sample import Sample, fewest
from feddecorr.results.summary import STATISTICS, Summary

PRIMARY = "last"
"""The statistic that decides: the last round, the model that a user gets."""

NETWORKS = {"mobilenetv2": 3, "resnet18": 2, "resnet32": 2, "resnet20": 2}
"""How near a network is to those that the paper trains; others count 1."""

SIDES = {"cifar10": 32, "cifar100": 32, "tinyimagenet": 64}
"""Pixels of a side, as in the paper."""


@dataclass(frozen=True)
class Run:
    """A finished run and what is asked of its settings; `declared` is how many seeds its setting has by the plan."""

    summary: Summary
    declared: int | None = None

    @cached_property
    def settings(self) -> dict[str, Any]:
        """All settings with dotted keys."""
        return flatten(self.summary.settings)

    @property
    def seed(self) -> int:
        """The run's seed."""
        return int(self.settings["seed"])

    @property
    def method(self) -> str:
        """The method's name."""
        return str(self.settings["method.name"])

    @property
    def regularizers(self) -> Mapping[str, Mapping[str, Any]]:
        """The regularizers' options by name."""
        found: Mapping[str, Mapping[str, Any]] = self.summary.experiment["regularizers"]
        return found

    @property
    def alpha(self) -> float | None:
        """The concentration of a split by Dirichlet draws; infinite if it is homogeneous, None for other splits."""
        name = self.settings["partition.name"]
        if name == "homogeneous":
            return math.inf
        return float(self.settings["partition.alpha"]) if name == "dirichlet" else None

    @property
    def work(self) -> float:
        """Images that are trained on, at most; more is nearer to the paper."""
        images = self.settings.get("data.train") or math.inf
        return float(images) * float(self.settings["training.epochs"]) * float(self.settings["rounds"])

    @property
    def fidelity(self) -> tuple[float, float, float]:
        """How near it is to the paper's runs: by its network, the size of its images, and how many it trains on."""
        side = SIDES.get(str(self.settings["data.name"]))
        size = (self.settings.get("data.size") or side) / side if side else 0.0
        return NETWORKS.get(str(self.settings["model.name"]), 1), float(size), self.work

    @property
    def width(self) -> int:
        """Dimensions of the representation."""
        return len(self.summary.spectrum or [])

    @property
    def conditions(self) -> dict[str, str]:
        """What it learns and with which network: data set, training images, their size, and the model."""
        name = str(self.settings["data.name"])
        size = self.settings.get("data.size") or SIDES.get(name)
        widths = self.settings.get("model.widths")
        width = "-".join(map(str, widths)) if isinstance(widths, list | tuple) else self._width()
        return {
            "data": name,
            "images": str(self.settings.get("data.train") or "all"),
            "size": f"{size}×{size}" if size else "–",
            "network": f"{self.settings['model.name']} {width}" if width else str(self.settings["model.name"]),
        }

    def _width(self) -> str:
        width = self.settings.get("model.width")
        return "" if width in (None, 1.0) else f"×{width}"

    def describe(self, but: Sequence[str] = ()) -> str:
        """Return its other settings in words, without what a claim varies."""
        words = {
            "method": self.method,
            "clients": f"{self.settings['clients']} clients",
            "partition": self._split(but),
            "training.epochs": f"{self.settings['training.epochs']} local epochs",
            "rounds": f"{self.settings['rounds']} rounds",
        }
        return ", ".join(word for name, word in words.items() if name not in but and word)

    def _split(self, but: Sequence[str]) -> str:
        if self.alpha is not None:
            return "" if "partition.alpha" in but else f"alpha {self.alpha:g}"
        count = self.settings.get("partition.per_client")
        return "" if count is None or "partition.per_client" in but else f"{count} classes per client"


def runs_of(summaries: Iterable[Summary], plan: Plan | None = None) -> list[Run]:
    """Return the finished runs, fuller ones later: of several records of one experiment, the last counts.

    Runs whose settings cannot be read here are evidence of nothing.
    By a plan, seeds beyond those of a setting do not count; a setting that it does not know has none declared.
    """
    fuller_later = sorted(summaries, key=lambda summary: bool(summary.local_models))
    finished = [summary for summary in fuller_later if summary.is_known and is_finished(summary)]
    if plan is None:
        return [Run(summary) for summary in finished]
    runs = [Run(summary, plan.declared.get(context(summary), 0)) for summary in finished]
    return [run for run in runs if not run.declared or run.seed < run.declared]


Key = tuple[Context, str]


def group(runs: Iterable[Run], but: Sequence[str] = ()) -> list[list[Run]]:
    """Return runs that agree in all settings but these (and the seed)."""
    groups: dict[Context, list[Run]] = {}
    for run in runs:
        groups.setdefault(context(run.summary, but), []).append(run)
    return list(groups.values())


@dataclass(frozen=True)
class PairedRuns:
    """Runs without and with FedDecorr, equal in everything else, by seed."""

    without: Mapping[int, Run]
    decorrelated: Mapping[int, Run]

    @property
    def run(self) -> Run:
        """One of them, to ask for settings."""
        return next(iter(self.decorrelated.values()))

    @property
    def runs(self) -> list[Run]:
        """All of them."""
        return [*self.without.values(), *self.decorrelated.values()]

    @property
    def strength(self) -> str:
        """FedDecorr's options, as text."""
        return json.dumps(self.run.regularizers["feddecorr"], sort_keys=True)

    @property
    def is_papers(self) -> bool:
        """Whether the loss is as strong as in the paper's runs: 0.1, or 0.05 on CIFAR-100, as its code scales it."""
        options = self.run.regularizers["feddecorr"]
        betas = (0.1, 0.05) if self.run.settings["data.name"] == "cifar100" else (0.1,)
        return options["normalization"] == "released" and options["beta"] in betas

    def difference(self, of: Callable[[Summary], float | None]) -> Sample:
        """Return a number with FedDecorr minus the same without, over the seeds that have both."""
        return sample(self.decorrelated, of).minus(sample(self.without, of))

    def gains(self) -> dict[str, Sample]:
        """Return the differences in accuracy, by statistic."""
        return {name: self.difference(_statistic(name)) for name in STATISTICS}

    @property
    def key(self) -> str:
        """What tells it from other pairs: its settings and FedDecorr's options."""
        return json.dumps([context(self.run.summary, ["regularizers"]), self.strength])

    def gain_by_round(self) -> dict[int, Sample]:
        """Return the paired differences in accuracy by evaluated round, of the rounds that all seeds of both have."""
        seeds = sorted(self.without.keys() & self.decorrelated.keys())
        arms = [[_accuracies(arm[seed].summary) for seed in seeds] for arm in (self.without, self.decorrelated)]
        rounds = sorted(set.intersection(*(set(curve) for arm in arms for curve in arm)))
        return {
            number: Sample(
                {seed: after[number] - before[number] for seed, before, after in zip(seeds, *arms, strict=True)}
            )
            for number in rounds
        }


def _accuracies(summary: Summary) -> dict[int, float]:
    return {int(line["round"]): float(line["model"]["accuracy"]) for line in summary.rounds if line["model"]}


def _statistic(name: str) -> Callable[[Summary], float | None]:
    return lambda summary: summary.statistic(name)


def sample(runs: Mapping[int, Run], of: Callable[[Summary], float | None]) -> Sample:
    """Return a number of each run that has it, by seed."""
    found = {seed: of(run.summary) for seed, run in runs.items()}
    known = {seed: value for seed, value in found.items() if value is not None}
    return Sample(known, fewest(run.declared for run in runs.values()))


def paired_runs(runs: Iterable[Run], method: str = "fedavg") -> list[PairedRuns]:
    """Return every pair of arms of that method; each strength of FedDecorr is a separate pair."""
    found = []
    for equal in group([run for run in runs if run.method == method], but=["regularizers"]):
        without = {run.seed: run for run in equal if not run.regularizers}
        strengths: dict[str, dict[int, Run]] = {}
        for run in equal:
            if set(run.regularizers) == {"feddecorr"}:
                strengths.setdefault(json.dumps(run.regularizers, sort_keys=True), {})[run.seed] = run
        found += [PairedRuns(without, arm) for arm in strengths.values() if without.keys() & arm.keys()]
    return found


def group_pairs(found: Iterable[PairedRuns], but: Sequence[str]) -> list[list[PairedRuns]]:
    """Return pairs that agree in FedDecorr's strength and in all settings but these."""
    groups: dict[Key, list[PairedRuns]] = {}
    for pair in found:
        groups.setdefault((context(pair.run.summary, ["regularizers", *but]), pair.strength), []).append(pair)
    return list(groups.values())


def change(points: Sequence[tuple[float, Sample]]) -> Sample:
    """Return, by seed, by how much a straight line through points rises from the least to the largest x.

    It takes three different x.
    """
    points = sorted(points, key=lambda point: point[0])
    if len({x for x, _ in points}) < 3:
        return Sample({})
    places = np.array([x for x, _ in points])
    seeds = sorted(set.intersection(*(set(sample.values) for _, sample in points)))
    curves = {seed: np.array([sample.values[seed] for _, sample in points]) for seed in seeds}
    slopes = {seed: _slope(places, curve) * float(np.ptp(places)) for seed, curve in curves.items()}
    return Sample(slopes, fewest(sample.declared for _, sample in points))


def _slope(places: np.ndarray, values: np.ndarray) -> float:
    """Return the slope of the line of least squares; of equal values exactly zero, on any processor."""
    from_centre = places - places.mean()
    return float(from_centre @ (values - values[0]) / (from_centre @ from_centre))
