"""Every experiment of the paper's scale starts: its split is made in full, and its first steps are taken."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from feddecorr import run
from feddecorr.collapse.representation import find_classifier
from feddecorr.config.experiment import Experiment
from feddecorr.data import cache
from feddecorr.data.dataset import Dataset, Images
from feddecorr.paper.studies import STUDIES
from feddecorr.server.federation import Simulation
from feddecorr.settings.options import RunOptions

SHAPES = {"cifar10": (50_000, 10, 32), "cifar100": (50_000, 100, 32), "tinyimagenet": (100_000, 200, 64)}
"""Training images, classes and size of each data set."""

EXPERIMENTS = {
    arm.experiment.digest(): arm.experiment for study in STUDIES.values() for arm in study.arms("paper", seeds=1)
}


def shortened(experiment: Experiment, *, evaluated: bool) -> tuple[Experiment, RunOptions]:
    """Return the first steps of an experiment: in a round, one client's one pass over about five images."""
    settings = experiment.to_dict()
    settings["data"] |= {"train": 5 * experiment.clients, "test": 20}
    settings["partition"]["minimum"] = 2
    settings["training"]["epochs"] = 1
    settings["participation"] = 1 / experiment.clients
    options = RunOptions.parse({"rounds": 1 if evaluated else 2, "evaluation": {"every": 2}})
    return Experiment.parse(settings), options


def covering(*names: str) -> dict[str, Experiment]:
    """Return experiments among which every value of these settings is.

    Others differ in alpha, beta, the number of local epochs or of clients, which change numbers, and no code; or they
    combine methods and regularizers otherwise, which the laws of every method are about.
    """
    found: dict[str, Experiment] = {}
    seen: set[str] = set()
    for experiment in EXPERIMENTS.values():
        settings: dict[str, Any] = experiment.to_dict()
        settings |= {"method": settings["method"]["name"], "regularizers": sorted(settings["regularizers"])}
        values = [f"{name}={json.dumps(settings[name])}" for name in names]
        if not seen.issuperset(values):
            seen |= set(values)
            found[" ".join(values)] = experiment
    return found


TRAINED = covering("method", "regularizers", "model", "batchnorm", "transforms")
EVALUATED = covering("data", "model")


@pytest.fixture(scope="module", autouse=True)
def stand_ins(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Put random images of the right shapes in place of the data sets."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("data")
        patch.setenv("FEDDECORR_DATA", str(folder))
        stream = torch.Generator().manual_seed(0)
        for name, (_, classes, size) in SHAPES.items():
            train, test = (
                Images(
                    torch.randint(0, 256, (count, size, size, 3), dtype=torch.uint8, generator=stream),
                    torch.arange(count) % classes,
                )
                for count in (4000, 200)
            )
            cache.store(name, Dataset.of(train, test, tuple(map(str, range(classes)))), source="made up")
        yield folder


@pytest.mark.parametrize("kind", TRAINED)
def test_first_steps(kind: str) -> None:
    """A client of a real network trains, with all terms of its objective, and the server takes the round."""
    record = next(iter(run(*shortened(TRAINED[kind], evaluated=False))))
    assert record.round == len(record.clients) == 1
    assert set(record.terms) > set(TRAINED[kind].regularizers)  # and the loss of the labels
    assert record.state


@pytest.mark.parametrize("kind", EVALUATED)
def test_first_evaluation(kind: str) -> None:
    """The global model of a first round is evaluated, and its spectrum has the width of the network."""
    experiment, options = shortened(EVALUATED[kind], evaluated=True)
    (record,) = run(experiment, options)
    paper = {"mobilenetv2": 1280, "resnet18": 512, "resnet32": 64, "resnet20": 64}
    model = experiment.to_dict()["model"]
    width = find_classifier(Simulation(experiment).task.build_model()).in_features
    assert record.accuracy is not None
    assert len(record.singular_values or []) == width == (model["projection"] or paper.get(model["name"], width))


def test_every_split_can_be_made() -> None:
    """Of as many labels as the data set has, with ten examples for each client."""
    splits = {
        json.dumps([settings["data"]["name"], settings["partition"], settings["clients"]]): experiment
        for experiment in EXPERIMENTS.values()
        for settings in [experiment.to_dict()]
    }
    assert splits
    for key, experiment in splits.items():
        count, classes, _ = SHAPES[json.loads(key)[0]]
        labels = np.arange(count) % classes
        parts = experiment.partition.split(labels, clients=experiment.clients, seed=experiment.seed)
        assert min(map(len, parts)) >= 10
