import json
import math
import pickle
from typing import Any

import pytest
from pydantic import ValidationError
from small import small

from feddecorr.config.experiment import REGISTRIES, Experiment
from feddecorr.config.overrides import read_overrides
from feddecorr.errors import UserError
from feddecorr.objective.regularizers import FedDecorr
from feddecorr.partition import Dirichlet
from feddecorr.transforms import Clip


def parse(*words: str) -> Experiment:
    return Experiment.parse(read_overrides(words))


def test_words_and_python_say_the_same() -> None:
    ours = parse("partition.alpha=0.05", "regularizers=feddecorr", "regularizers.feddecorr.beta=0.2", "rounds=7")
    theirs = Experiment(partition=Dirichlet(alpha=0.05), regularizers={"feddecorr": FedDecorr(beta=0.2)}, rounds=7)
    assert ours == theirs


@pytest.mark.parametrize("alpha", ["0.05", "inf"])
def test_an_experiment_survives_json(alpha: str) -> None:
    experiment = parse(f"partition.alpha={alpha}", "regularizers=feddecorr", "engine=pool", "engine.workers=3")
    text = json.dumps(experiment.to_dict(), allow_nan=False)
    assert Experiment.parse(json.loads(text)) == experiment


def test_an_experiment_survives_pickling() -> None:
    experiment = small("regularizers=feddecorr")
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
        small().rounds = 5  # type: ignore[misc]  # that is the point


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("rouns=3", "did you mean 'rounds'"),
        ("training.epoch=3", "training: unknown option 'epoch': did you mean 'epochs'"),
        ("partition.alpa=3", "partition: unknown option 'alpa': did you mean 'alpha'"),
        ("partition=dirichelt", "partition: unknown partition 'dirichelt': did you mean 'dirichlet'"),
        ("regularizers=fedecorr", "unknown regularizer 'fedecorr': did you mean 'feddecorr'"),
        ("regularizers=3", "unknown regularizer '3'"),
        ("regularizers.feddecorr.bta=1", "did you mean 'beta'"),
        ("rounds=0", "rounds: input should be greater than 0, not 0"),
        ("rounds=many", "rounds: "),
        ("participation=1.5", "participation: "),
        ("training.lr=nan", "training.lr: "),
        ("training.lr=-1", "training.lr: "),
        ("partition.alpha=nan", "partition.alpha: "),
        ("partition.alpha=0", "partition.alpha: "),
        ("batchnorm=global", "buffers: "),
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
        Experiment(rouns=3)  # type: ignore[call-arg]  # that is the point


def test_the_digest_names_results_not_engines() -> None:
    assert small("engine=serial").digest() == small("engine=pool").digest()
    assert small("seed=1").digest() != small("seed=2").digest()


def test_kinds_from_outside_are_found_again() -> None:
    experiment = small("method=outside:Failing", "method.round=7")
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
        Experiment.parse(settings)


def test_the_draw_is_a_part_of_what_decides_the_bits_and_the_usual_one_has_the_address_it_had() -> None:
    assert "sampling" not in small().identity()
    assert small("sampling=fixed").digest() == small().digest() != small("sampling=poisson").digest()
