"""How long a run will take: its images, times what an image costs on this machine."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from statistics import median

from feddecorr.data import Data
from feddecorr.engines.serial import Serial
from feddecorr.errors import RunError, UserError
from feddecorr.methods import FedAvg
from feddecorr.partition import Homogeneous
from feddecorr.runs.pipeline import run
from feddecorr.settings.experiment import Experiment

FORWARD = 1 / 3
"""What an image costs in an evaluation, next to training on it: one pass of three."""

Kind = str
"""All of an experiment that decides what an image costs: runs of the same kind take the same time per image."""


@dataclass(frozen=True)
class Cost:
    """Seconds for an image in training, and for an evaluation beside its passes (the spectrum, mostly)."""

    image: float
    evaluation: float


UNIT = Cost(image=1.0, evaluation=0.0)
"""Counts images instead of seconds: enough to compare runs of one kind."""


class Costs:
    """What has been measured of each kind; what was not counts images, times the mean of what was."""

    def __init__(self, measured: Mapping[Kind, Cost]) -> None:
        self.measured = measured
        images = [cost.image for cost in measured.values()]
        self._other = Cost(sum(images) / len(images), 0.0) if images else UNIT

    def of_round(self, experiment: Experiment) -> float | None:
        """Return what a round costs on the average; None if the data are not there."""
        try:
            train, test = sizes(experiment.data)
        except UserError:
            return None
        cost = self.measured.get(kind(experiment), self._other)
        cohort = max(1, round(experiment.participation * experiment.clients))
        trained = train * cohort / experiment.clients * experiment.training.epochs
        models = 1 + cohort * experiment.evaluation.clients
        evaluations = math.ceil(experiment.rounds / experiment.evaluation.every) * models / experiment.rounds
        return trained * cost.image + evaluations * (cost.evaluation + test * FORWARD * cost.image)


@cache
def sizes(data: Data) -> tuple[int, int]:
    """Return how many images there are to train on and to test with."""
    dataset = data.load()
    return len(dataset.train), len(dataset.test)


def kind(experiment: Experiment) -> Kind:
    """Return what decides the cost of an image."""
    return json.dumps([_network(experiment), _objective(experiment)])


def _network(experiment: Experiment) -> str:
    settings = experiment.to_dict()
    for free in ("train", "test", "seed"):
        settings["data"].pop(free, None)
    for free in ("epochs", "lr", "momentum", "weight_decay"):
        settings["training"].pop(free, None)
    return json.dumps([settings[key] for key in ("data", "model", "training", "buffers")], sort_keys=True)


def _objective(experiment: Experiment) -> str:
    return "+".join([experiment.to_dict()["method"]["name"], *experiment.regularizers])


def measure(
    experiments: Iterable[Experiment], seconds: float, clock: Callable[[], float] = time.monotonic
) -> dict[Kind, Cost]:
    """Return the cost of each kind among the experiments, from a measurement of about that many seconds.

    Every network is measured with FedAvg, and every objective on the cheapest of the networks: their product is
    taken for the cost of both together. What cannot be measured, because its data are not there, is left out.
    """
    kinds = {kind(experiment): experiment for experiment in experiments}
    networks = {_network(experiment): experiment for experiment in kinds.values()}
    objectives = {_objective(experiment): experiment for experiment in kinds.values()}
    end = clock() + seconds
    costs: dict[str, Cost] = {}
    for left, (name, experiment) in zip(range(len(networks), 0, -1), networks.items(), strict=True):
        plain = experiment.model_copy(update={"method": FedAvg(), "regularizers": {}})
        if cost := _try(plain, (end - clock()) / (left + len(objectives))):
            costs[name] = cost
    if not costs:
        return {}
    cheapest = networks[min(costs, key=lambda name: costs[name].image)]
    factors = {_objective(Experiment()): 1.0}
    for left, (name, experiment) in zip(range(len(objectives), 0, -1), objectives.items(), strict=True):
        chosen = {"method": experiment.method, "regularizers": experiment.regularizers}
        share = (end - clock()) / left
        if name not in factors and (cost := _try(cheapest.model_copy(update=chosen), share)):
            factors[name] = cost.image / costs[_network(cheapest)].image
    return {
        found: Cost(costs[network].image * factors.get(_objective(experiment), 1.0), costs[network].evaluation)
        for found, experiment in kinds.items()
        if (network := _network(experiment)) in costs
    }


def _try(experiment: Experiment, seconds: float) -> Cost | None:
    """Measure with a few images, and if that was quick, with whole batches."""
    try:
        train, test = sizes(experiment.data)
        started = time.perf_counter()
        few = _measure(experiment, min(train, 16), min(test, 100))
        spent = time.perf_counter() - started
        batch = experiment.training.batch
        if spent * batch / 4 > seconds:
            return few
        return _measure(experiment, min(train, 4 * batch), min(test, 500))
    except (UserError, RunError):
        return None


def _measure(experiment: Experiment, train: int, test: int) -> Cost:
    """Run four rounds of one client: the first warms up, and only the last is evaluated."""
    small = {
        "data": experiment.data.model_copy(update={"train": train, "test": test}),
        "clients": 1,
        "partition": Homogeneous(minimum=1),
        "participation": 1.0,
        "rounds": 4,
        "training": experiment.training.model_copy(update={"epochs": 1}),
        "evaluation": experiment.evaluation.model_copy(update={"every": 4, "clients": False}),
        "engine": Serial(),
    }
    _, *middle, last = [record.seconds for record in run(experiment.model_copy(update=small))]
    image = median(middle) / train
    return Cost(image, max(0.0, last - median(middle) - test * FORWARD * image))
