import shlex

import pytest
from small import small

from feddecorr.config.overrides import read_overrides
from feddecorr.settings.flat import command, overrides, parse_settings, text
from feddecorr.settings.options import REGISTRIES

CASES = [
    "",
    "partition.alpha=inf method=moon method.mu=5",
    "regularizers=feddecorr,decov regularizers.feddecorr.beta=0.05",
    "data.augment=crop,flip training.weight_decay=1e-5 evaluation.clients=true model.widths=[4,8]",
    "participation=0.5 batchnorm=local evaluation.every=7 seed=3 rounds=9",
    "partition=classes partition.per_client=2 data.noise=1",
    "partition=flower partition.partitioner=IidPartitioner partition.options.num_partitions=3",
    "model=mlp",
]


@pytest.mark.parametrize("case", CASES)
def test_the_command_says_the_experiment_and_how_it_is_run(case: str) -> None:
    experiment, options = small(*case.split(), "engine=pool", "trackers=tensorboard")
    said = shlex.split(command(experiment, options))
    assert said[:2] == ["feddecorr", "run"]
    assert parse_settings(read_overrides(said[2:])) == (experiment, options)


@pytest.mark.parametrize("value", ["word", "1", "true", "1979-05-27", "a=b", "", "with spaces", 3, 0.5, True, [1, 2]])
def test_a_value_is_read_back_as_it_was(value: object) -> None:
    assert read_overrides([f"key={text(value)}"])["key"] == value


def test_a_table_says_its_name_first() -> None:
    assert overrides("method", {"mu": 5, "name": "moon"}) == ["method=moon", "method.mu=5"]


@pytest.mark.parametrize("family", list(REGISTRIES))
def test_what_may_be_none_is_so_by_default(family: str) -> None:
    """A command has no word for it."""
    for cls in REGISTRIES[family].table.values():
        for name, field in cls.model_fields.items():
            if "None" in str(field.annotation):
                assert field.default is None, name
