"""What the scales mean."""

from typing import Any

import pytest

from feddecorr.config.experiment import Experiment
from feddecorr.errors import UserError
from feddecorr.paper.grid import settings_of
from feddecorr.paper.scales import PAPER, SCALE_OF, find_scale
from feddecorr.results.study import SCALES
from feddecorr.settings.flat import to_settings
from feddecorr.settings.options import RunOptions


def paper(**labels: Any) -> tuple[Experiment, RunOptions]:
    return settings_of(PAPER, {"method": "fedavg", "regularizer": "none", "alpha": 0.05, **labels})


@pytest.mark.parametrize(
    ("data", "rounds", "weight_decay", "augment"),
    [
        ("cifar10", 100, 1e-5, ("crop", "flip")),
        ("cifar100", 100, 1e-4, ("crop", "flip", "autoaugment")),
        ("tinyimagenet", 50, 1e-4, ("autoaugment",)),
    ],
)
def test_the_paper_scale_is_the_paper(data: str, rounds: int, weight_decay: float, augment: tuple[str, ...]) -> None:
    """Section 5.1: SGD with 0.01, momentum 0.9, batches of 64, ten local epochs, ten clients, MobileNetV2."""
    found, options = paper(data=data)
    document = found.to_dict()
    assert (document["data"]["name"], document["data"]["train"], document["data"]["test"]) == (data, None, None)
    assert (options.rounds, found.clients, found.participation) == (rounds, 10, 1.0)
    training = document["training"]
    assert (training["lr"], training["momentum"], training["batch"], training["epochs"]) == (0.01, 0.9, 64, 10)
    assert training["weight_decay"] == weight_decay
    assert found.data.augment == augment
    assert document["model"]["name"] == "mobilenetv2"
    assert document["partition"] == {**document["partition"], "name": "dirichlet", "alpha": 0.05, "capacity_rule": "at"}


@pytest.mark.parametrize(
    ("labels", "setting", "value"),
    [
        ({"method": "fedprox"}, "method.mu", 1e-3),
        ({"method": "fedprox"}, "method.variant", "published"),
        ({"method": "fedavgm"}, "method.momentum", 0.5),
        ({"method": "fedavgm"}, "method.variant", "released"),
        ({"method": "fedavgm", "data": "cifar10"}, "method.momentum", 0.9),
        ({"method": "moon"}, "method.mu", 1.0),
        ({"method": "moon"}, "model.projection", None),
        ({"method": "moon", "data": "cifar10"}, "model.projection", 256),
        ({"method": "moon", "data": "cifar100"}, "model.projection", 256),
        ({"regularizer": "feddecorr"}, "regularizers.feddecorr.beta", 0.1),
        ({"regularizer": "feddecorr"}, "regularizers.feddecorr.normalization", "released"),
        ({"regularizer": "feddecorr", "data": "cifar100"}, "regularizers.feddecorr.beta", 0.05),
        ({"clients": 20}, "participation", 1.0),
        ({"clients": 20}, "rounds", 50),
        ({"clients": 50}, "participation", 0.2),
        ({"clients": 100}, "rounds", 100),
        ({"alpha": "inf"}, "partition.alpha", "Infinity"),
    ],
)
def test_what_the_paper_chose_for_its_methods(labels: dict[str, Any], setting: str, value: object) -> None:
    """And where its authors' code departs from its text, as that code has it."""
    found: Any = to_settings(*paper(**{"data": "tinyimagenet", **labels}))
    for name in setting.split("."):
        found = found[name]
    assert found == value


def test_every_departure_from_the_text_is_said_in_words() -> None:
    """No settings without a sentence."""
    assert all(when.says for scale in SCALE_OF.values() for when in scale.when)


def test_there_is_a_scale_for_every_name() -> None:
    """And none for another."""
    assert tuple(SCALE_OF) == SCALES
    with pytest.raises(UserError, match="did you mean 'small'"):
        find_scale("smal")
