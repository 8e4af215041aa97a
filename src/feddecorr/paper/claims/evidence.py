"""Records as evidence: the declared plan, runs found by their settings, and pairs that differ in FedDecorr alone."""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict, PositiveInt, ValidationError, field_validator

from feddecorr.config.overrides import flatten
from feddecorr.core.limits import read_plain
from feddecorr.errors import UserError, nearest
from feddecorr.paper.studies import STUDIES
from feddecorr.results.conditions import Condition, by_name
from feddecorr.results.curves import per_round
from feddecorr.results.groups import context, group_by, is_finished, sample_runs
from feddecorr.results.pairing import Pair
from feddecorr.results.sample import Sample, fewest
from feddecorr.results.study import Arm
from feddecorr.results.summary import Context, Summary, experiment_context
from feddecorr.settings.flat import to_settings

PLAN = "plan.toml"
"""The name of the file, next to the records."""


class Question(BaseModel):
    """A study at a scale, or those of its runs that meet a condition, with the seeds from 0 on, declared on a day."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    study: str
    scale: str
    seeds: PositiveInt
    declared: date
    where: str = ""

    def arms(self) -> Iterable[Arm]:
        """Yield the runs of its first seed."""
        wanted = Condition(self.where) if self.where else None
        for arm in STUDIES[self.study].arms(self.scale, 1):
            if wanted is None or wanted.holds(by_name(to_settings(arm.experiment, arm.options))):
                yield arm

    @field_validator("study")
    @classmethod
    def _is_ours(cls, name: str) -> str:
        """Take this package's studies alone: a file imports nothing."""
        if name not in STUDIES:
            raise ValueError(f"unknown study '{name}': {nearest(name, STUDIES)}")
        return name


@dataclass(frozen=True)
class Plan:
    """All questions, in the order in which they are to be answered."""

    questions: Sequence[Question] = ()

    @cached_property
    def declared(self) -> dict[Context, int]:
        """How many seeds each setting has: the most that a question gives it."""
        found: dict[Context, int] = {}
        for question in self.questions:
            for arm in question.arms():
                key = experiment_context(arm.experiment.content(), arm.options.rounds)
                found[key] = max(found.get(key, 0), question.seeds)
        return found


def read_plan(path: Path) -> Plan:
    """Return the plan that a file declares."""
    try:
        document = tomllib.loads(read_plain(path).decode())
        unknown = document.keys() - {"question"}
        if unknown:
            raise UserError(f"{path}: a plan has [[question]] tables alone, not {', '.join(sorted(unknown))}")
        return Plan([Question.model_validate(entry) for entry in document.get("question", [])])
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UserError(f"{path} is not a plan that can be read: {error}") from error
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise UserError(f"{path}: {place}: {first['msg']}; a question has study, scale, seeds and declared") from error


PRIMARY = "last"
"""The statistic that decides: the last round, the model that a user gets."""

NETWORKS = {"mobilenetv2": 3, "resnet18": 2, "resnet32": 2, "resnet20": 2}
"""How near a network is to those that the paper trains; others count 1."""

SPLITS = ("dirichlet", "homogeneous", "classes")
"""The splits of the paper."""

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
    def data(self) -> str:
        """The data set's name."""
        return str(self.settings["data.name"])

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
        side = SIDES.get(self.data)
        size = (self.settings.get("data.size") or side) / side if side else 0.0
        return NETWORKS.get(str(self.settings["model.name"]), 1), float(size), self.work

    @property
    def width(self) -> int:
        """Dimensions of the representation."""
        return len(self.summary.spectrum or [])

    @property
    def conditions(self) -> dict[str, str]:
        """What it learns and with which network: data set, training images, their size, and the model."""
        size = self.settings.get("data.size") or SIDES.get(self.data)
        widths, factor = self.settings.get("model.widths"), self.settings.get("model.width")
        width = "" if factor in (None, 1.0) else f"×{factor}"
        width = "-".join(map(str, widths)) if isinstance(widths, list | tuple) else width
        return {
            "data": self.data,
            "images": str(self.settings.get("data.train") or "all"),
            "size": f"{size}×{size}" if size else "–",
            "network": f"{self.settings['model.name']} {width}" if width else str(self.settings["model.name"]),
        }

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

    Runs whose settings cannot be read here are evidence of nothing, and so are those on splits that the paper has not.
    By a plan, seeds beyond those of a setting do not count; a setting that it does not know has none declared.
    """
    fuller_later = sorted(summaries, key=lambda summary: bool(summary.local_models))
    known = [summary for summary in fuller_later if summary.is_known and is_finished(summary)]
    finished = [summary for summary in known if summary.experiment["partition"]["name"] in SPLITS]
    if plan is None:
        return [Run(summary) for summary in finished]
    runs = [Run(summary, plan.declared.get(context(summary), 0)) for summary in finished]
    return [run for run in runs if not run.declared or run.seed < run.declared]


def group(runs: Iterable[Run], but: Sequence[str] = ()) -> list[list[Run]]:
    """Return runs that agree in all settings but these (and the seed)."""
    return list(group_by(runs, lambda run: context(run.summary, but)).values())


def sample(runs: Mapping[int, Run], of: Callable[[Summary], float | None]) -> Sample:
    """Return a number of each run that has it, by seed."""
    found = sample_runs({seed: run.summary for seed, run in runs.items()}, of)
    return replace(found, declared=fewest(run.declared for run in runs.values()))


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

    @cached_property
    def pair(self) -> Pair:
        """Both arms, to take differences of."""
        first, second = ({seed: run.summary for seed, run in arm.items()} for arm in (self.without, self.decorrelated))
        return Pair(first, second, fewest(run.declared for run in self.runs))

    @property
    def options(self) -> Mapping[str, Any]:
        """FedDecorr's options."""
        return self.run.regularizers["feddecorr"]

    @property
    def strength(self) -> str:
        """FedDecorr's options, as text."""
        return json.dumps(self.options, sort_keys=True)

    @property
    def is_papers(self) -> bool:
        """Whether the loss is as strong as in the paper's runs: 0.1, or 0.05 on CIFAR-100, as its code scales it."""
        betas = (0.1, 0.05) if self.run.data == "cifar100" else (0.1,)
        return self.options["normalization"] == "released" and self.options["beta"] in betas

    def gains(self) -> dict[str, Sample]:
        """Return the differences in accuracy, by statistic."""
        return self.pair.by_statistic()

    @property
    def key(self) -> str:
        """What distinguishes it from other pairs: its settings and FedDecorr's options."""
        return json.dumps([context(self.run.summary, ["regularizers"]), self.strength])

    def gain_by_round(self) -> dict[int, Sample]:
        """Return the paired differences in accuracy by evaluated round, of the rounds that all seeds of both have."""
        read = per_round("accuracy")
        arms = [{seed: read(arm[seed]) for seed in self.pair.seeds} for arm in (self.pair.first, self.pair.second)]
        rounds = sorted(set.intersection(*(set(curve) for arm in arms for curve in arm.values())))
        before, after = (
            {number: Sample({seed: curve[number] for seed, curve in arm.items()}) for number in rounds} for arm in arms
        )
        return {int(number): after[number].minus(before[number]) for number in rounds}


def paired_runs(runs: Iterable[Run], method: str = "fedavg") -> list[PairedRuns]:
    """Return every pair of arms of that method; each strength of FedDecorr is a separate pair."""
    found = []
    for equal in group([run for run in runs if run.method == method], but=["regularizers"]):
        without = {run.seed: run for run in equal if not run.regularizers}
        decorrelated = [run for run in equal if set(run.regularizers) == {"feddecorr"}]
        arms = [{run.seed: run for run in same} for same in group(decorrelated)]
        found += [PairedRuns(without, arm) for arm in arms if without.keys() & arm.keys()]
    return found


def group_pairs(found: Iterable[PairedRuns], but: Sequence[str]) -> list[list[PairedRuns]]:
    """Return pairs that agree in FedDecorr's strength and in all settings but these."""
    left_out = ["regularizers", *but]
    return list(group_by(found, lambda pair: (context(pair.run.summary, left_out), pair.strength)).values())


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
