import json
import math
import pickle
from typing import Any

import pytest
from pydantic import ValidationError
from small import small

from feddecorr.config.experiment import Experiment
from feddecorr.config.overrides import read_overrides
from feddecorr.engines.pool import Pool
from feddecorr.errors import UserError
from feddecorr.objective.regularizers import FedDecorr
from feddecorr.partition.skew import Dirichlet
from feddecorr.settings.flat import parse_settings, to_settings
from feddecorr.settings.options import REGISTRIES, RunOptions
from feddecorr.trackers.libraries import WeightsAndBiases
from feddecorr.transforms.private import Clip


def parse(*words: str) -> Experiment:
    return parse_settings(read_overrides(words))[0]


def test_words_and_python_say_the_same() -> None:
    ours = parse("partition.alpha=0.05", "regularizers=feddecorr", "regularizers.feddecorr.beta=0.2")
    theirs = Experiment(partition=Dirichlet(alpha=0.05), regularizers={"feddecorr": FedDecorr(beta=0.2)})
    assert ours == theirs
    assert hash(ours) == hash(theirs)
    ours, options = parse_settings(read_overrides(["rounds=7", "engine=pool", "trackers=wandb"]))
    assert options == RunOptions(rounds=7, engine=Pool(), trackers={"wandb": WeightsAndBiases()})
    assert ours == Experiment()


@pytest.mark.parametrize("alpha", ["0.05", "inf"])
def test_an_experiment_survives_json(alpha: str) -> None:
    words = [f"partition.alpha={alpha}", "regularizers=feddecorr", "engine=pool", "engine.workers=3"]
    parsed = parse_settings(read_overrides(words))
    text = json.dumps(to_settings(*parsed), allow_nan=False)
    assert parse_settings(json.loads(text)) == parsed


def test_an_experiment_survives_pickling() -> None:
    experiment = small("regularizers=feddecorr").experiment
    assert pickle.loads(pickle.dumps(experiment)) == experiment  # noqa: S301 - our own bytes


def test_several_of_a_kind_may_have_names_of_their_own() -> None:
    """Which are found again: in words, where a module's name may have dots, and in Python."""
    words = ["regularizers.strong.name=feddecorr", "regularizers.strong.beta=1", "regularizers.weak.name=feddecorr"]
    experiment = parse(*words, "transforms.first.name=clip")
    terms = {"strong": FedDecorr(beta=1), "weak": FedDecorr()}
    assert Experiment(regularizers=terms, transforms={"first": Clip()}) == experiment
    assert Experiment.parse(experiment.to_dict()) == experiment
    assert parse("regularizers=feddecorr").to_dict()["regularizers"] == {"feddecorr": FedDecorr().to_dict()}


def test_an_experiment_is_frozen() -> None:
    with pytest.raises(ValidationError):
        small().options.rounds = 5  # type: ignore[misc]  # that is the point


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("rouns=3", "did you mean 'rounds'"),
        ("training.device=cuda", "training: unknown option 'device': did you mean 'device'"),
        ("training.clients_per_batch=many", "training.clients_per_batch: "),
        ("training.epoch=3", "training: unknown option 'epoch': did you mean 'epochs'"),
        ("partition.alpa=3", "partition: unknown option 'alpa': did you mean 'alpha'"),
        ("partition=dirichelt", "partition: unknown partition 'dirichelt': did you mean 'dirichlet'"),
        ("regularizers=fedecorr", "unknown regularizer 'fedecorr': did you mean 'feddecorr'"),
        ("regularizers=3", "unknown regularizer '3'"),
        ("regularizers.feddecorr.bta=1", "did you mean 'beta'"),
        ("rounds=0", "rounds: expected more than 0, not 0"),
        ("rounds=many", "rounds: "),
        ("participation=1.5", "participation: "),
        ("training.lr=nan", "training.lr: "),
        ("training.lr=-1", "training.lr: "),
        ("partition.alpha=nan", "partition.alpha: "),
        ("partition.alpha=0", "partition.alpha: "),
        ("batchnorm=global", "batchnorm: "),
        ("engine=pool engine.workers=0", "engine.workers: "),
        ("method=nowhere:Method", "cannot be imported"),
        ("method=pathlib:Path", "is no subclass of Method"),
    ],
)
def test_what_is_wrong_is_refused_with_its_place(word: str, message: str) -> None:
    with pytest.raises(UserError) as refusal:
        parse(*word.split())
    assert message in str(refusal.value)


def test_all_that_is_wrong_is_said_at_once() -> None:
    with pytest.raises(UserError) as refusal:
        parse("rounds=0", "clients=0", "training.lr=0")
    assert len(str(refusal.value).splitlines()) == 3


def test_python_gets_the_nearest_name_too() -> None:
    with pytest.raises(ValidationError, match="did you mean 'rounds'"):
        RunOptions(rouns=3)  # type: ignore[call-arg]  # that is the point


@pytest.mark.parametrize("option", ["engine=pool", "rounds=9", "evaluation.clients=true"])
def test_how_it_is_run_is_not_part_of_the_experiment(option: str) -> None:
    assert small(option).experiment == small().experiment
    assert small(option).experiment.digest() == small().experiment.digest()
    assert small(option).options != small().options
    assert small("seed=1").experiment.digest() != small("seed=2").experiment.digest()


def test_kinds_from_outside_are_found_again() -> None:
    experiment = small("method=outside:Failing", "method.round=7").experiment
    assert experiment.to_dict()["method"] == {"name": "outside:Failing", "client": 1, "round": 7}
    assert Experiment.parse(experiment.to_dict()) == experiment


def test_every_kind_says_what_it_is() -> None:
    for family in REGISTRIES.values():
        for cls in family.table.values():
            assert len(cls.line()) > 10
            assert all(field.description for field in cls.model_fields.values()), cls


def test_alpha_may_be_infinite() -> None:
    partition = parse("partition.alpha=inf").partition
    assert isinstance(partition, Dirichlet)
    assert math.isinf(partition.alpha)


@pytest.mark.parametrize("settings", [{"method": "\ud800"}, {"\udcff": 1}, {"model": {"name": "a:\ud800"}}])
def test_half_characters_are_refused_in_words(settings: dict[str, Any]) -> None:
    """As JSON can hold them, and commands that are not UTF-8."""
    with pytest.raises(UserError, match=r"\\ud"):
        parse_settings(settings)


def test_the_draw_is_a_part_of_the_experiment() -> None:
    assert (
        small("sampling=fixed").experiment.digest()
        == small().experiment.digest()
        != small("sampling=poisson").experiment.digest()
    )
