"""How long a run will take: its images, times what an image costs on this machine."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from feddecorr.config.experiment import Experiment
from feddecorr.data import Data
from feddecorr.errors import UserError
from feddecorr.runs.eval_schedule import FORWARD, evaluated_models, rhythm, trained_images

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
        evaluations = evaluated_models(experiment, rhythm(experiment, train, test)) / experiment.rounds
        trained = trained_images(experiment, train) * cost.image
        return trained + evaluations * (cost.evaluation + test * cost.image / FORWARD)


@cache
def sizes(data: Data) -> tuple[int, int]:
    """Return how many images there are to train on and to test with."""
    dataset = data.load()
    return len(dataset.train), len(dataset.test)


@cache
def _looks(data: Data) -> tuple[object, ...]:
    """Return what of the data decides the cost of an image: its shape, and how it is changed."""
    try:
        return (*data.load().shape, *data.augment)
    except UserError:
        return (data.to_dict().get("path", type(data).__name__), *data.augment)


def kind(experiment: Experiment) -> Kind:
    """Return what decides the cost of an image."""
    return json.dumps([network(experiment), objective(experiment)])


def network(experiment: Experiment) -> str:
    """Return what decides the cost of a plain step: the images, the network, and how it computes."""
    settings = experiment.to_dict()
    for free in ("epochs", "steps", "lr", "schedule", "momentum", "betas", "weight_decay"):
        settings["training"].pop(free, None)
    choices = [settings[key] for key in ("model", "training", "buffers")]
    return json.dumps([_looks(experiment.data), *choices], sort_keys=True)


def objective(experiment: Experiment) -> str:
    """Return what is minimized, by its names."""
    return "+".join([experiment.to_dict()["method"]["name"], *experiment.regularizers])
