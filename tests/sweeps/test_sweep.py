import re
from typing import Any

import pytest
from small import SETTINGS, small

from feddecorr.config.overrides import read_overrides
from feddecorr.errors import UserError
from feddecorr.results.names import name_arm
from feddecorr.results.study import Result, Table
from feddecorr.results.summary import STATISTICS, Summary
from feddecorr.sweeps.sweep import Sweep, SweepStudy, read_over


def study(*over: str, **table: Any) -> SweepStudy:
    sweep = Sweep.parse({**table, "over": {**table.get("over", {}), **dict(map(read_over, over))}})
    return SweepStudy("own", read_overrides([], onto=SETTINGS), sweep)


def labels(*over: str, seeds: int = 1, **table: Any) -> list[tuple[Any, ...]]:
    """Return the labels of all runs, without the seed if there is only one."""
    return [tuple(arm.labels.values())[: None if seeds > 1 else -1] for arm in study(*over, **table).arms("", seeds)]


def test_every_combination_is_there_once_for_every_seed() -> None:
    assert labels("partition.alpha=0.05,inf", "clients=2,3", seeds=2) == [
        (alpha, clients, seed) for seed in (0, 1) for alpha in (0.05, "inf") for clients in (2, 3)
    ]


def test_a_run_has_the_settings_that_its_words_say() -> None:
    """The same as on the command line."""
    arms = study("method=fedavg,moon", "model.widths=[8,16],[4]", "training.lr=0.1").arms("", 1)
    expected = [
        small(f"method={method}", f"model.widths={widths}", "training.lr=0.1", "seed=0").experiment
        for method in ("fedavg", "moon")
        for widths in ("[8,16]", "[4]")
    ]
    assert [arm.experiment for arm in arms] == expected


def test_a_file_may_hold_whole_tables_as_values() -> None:
    kinds = [{"name": "classes", "per_client": 2}, "homogeneous"]
    arms = study(over={"partition": kinds}).arms("", 1)
    assert [arm.experiment for arm in arms] == [
        small("partition=classes", "partition.per_client=2").experiment,
        small("partition=homogeneous").experiment,
    ]


def test_a_whole_table_is_named_by_its_kind_and_its_options() -> None:
    over = {"regularizers": ["none", {"feddecorr": {"beta": 0.05}}], "partition": [{"name": "dirichlet", "alpha": 0.1}]}
    arms = study(over=over).arms("", 1)
    assert [name_arm({key: value for key, value in arm.labels.items() if key != "seed"}).whole for arm in arms] == [
        "no regularizer, Dirichlet, α = 0.1",
        "FedDecorr (β = 0.05), Dirichlet, α = 0.1",
    ]
    assert labels(over={"regularizers": ["none", "feddecorr,decov"]}) == [("none",), ("feddecorr+decov",)]


def test_options_of_what_was_not_chosen_are_left_out() -> None:
    """Combinations that come to the same then are one."""
    assert labels("method=fedavg,moon", "method.mu=1,5") == [("fedavg", "–"), ("moon", 1), ("moon", 5)]
    assert labels("regularizers=none,feddecorr", "regularizers.feddecorr.beta=0.1,0.2") == [
        ("none", "–"),
        ("feddecorr", 0.1),
        ("feddecorr", 0.2),
    ]


def test_rounds_can_be_varied() -> None:
    """Though runs that differ in nothing else may share their first rounds."""
    assert labels("rounds=1,2") == [(1,), (2,)]


def test_combinations_with_certain_values_are_left_out() -> None:
    rules = ["not (method = moon and partition.alpha = 0.5)", "not (method = fedavg and seed = 1)"]
    assert labels("method=fedavg,moon", "partition.alpha=0.05,0.5", seeds=2, where=rules) == [
        ("fedavg", 0.05, 0),
        ("fedavg", 0.5, 0),
        ("moon", 0.05, 0),
        ("moon", 0.05, 1),
    ]


def test_only_combinations_that_fulfil_all_conditions_are_there() -> None:
    """Conditions see the settings as they are in the end, defaults included."""
    over = ["method=fedavg,moon", "partition.alpha=0.05,0.5"]
    assert labels(*over, where=["method != moon or partition.alpha < 0.1"]) == [
        ("fedavg", 0.05),
        ("fedavg", 0.5),
        ("moon", 0.05),
    ]
    assert labels(*over, where=["method.mu >= 0", "partition.balance = true", "clients = 4"]) == [
        ("moon", 0.05),
        ("moon", 0.5),
    ]
    assert labels(*over, where=["regularizers = none", "method = fedavg", "partition.alpha > 0.1"]) == [("fedavg", 0.5)]


def test_combinations_that_are_left_out_need_not_be_possible() -> None:
    assert labels("clients=2,0", where=["clients > 0"]) == [(2,)]
    with pytest.raises(UserError, match="clients: expected more than 0"):
        labels("clients=2,0")


def test_seeds_can_be_named() -> None:
    assert [arm.labels["seed"] for arm in study("seed=7,9").arms("", 1)] == [7, 9]


@pytest.mark.parametrize(
    ("over", "table", "says"),
    [
        (["method"], {}, "--over 'method': expected key=value"),
        (["method="], {}, "--over 'method=': expected key=value"),
        (["methd=fedavg"], {}, "unknown option 'methd': did you mean 'method'?"),
        (["method=fedavg,moon", "method.muu=1"], {}, "nothing that is chosen in this sweep has an option 'method.muu'"),
        ([], {"over": {"clients": []}}, "sweep.over: clients has no values"),
        ([], {"sedes": 3}, "sweep: unknown option 'sedes': did you mean 'seeds'?"),
        (["clients=2"], {"where": ["clients = 3"]}, "no combination of the sweep is left"),
    ],
)
def test_a_mistake_is_named(over: list[str], table: dict[str, Any], says: str) -> None:
    with pytest.raises(UserError, match=re.escape(says)):
        labels(*over, **table)


def test_the_table_has_mean_and_deviation_over_the_seeds_and_shows_what_is_missing() -> None:
    """Of 0.1 and 0.3, the mean is 0.2, and the deviation 0.1414."""
    sweep = study("clients=2,3")

    def summary(accuracy: float) -> Summary:
        model = {"accuracy": accuracy, "effective_rank": 100 * accuracy}
        settings = {"training": {"schedule": {"name": "constant"}}}
        return Summary("", settings, {}, "", {}, [{"round": 1, "model": model}], None, {}, {})

    results = [
        Result({"clients": 2, "seed": 0}, summary(0.1)),
        Result({"clients": 2, "seed": 1}, summary(0.3)),
        Result({"clients": 3, "seed": 0}, summary(0.5)),
        Result({"clients": 3, "seed": 1}, None),
    ]
    table, figure, *others = sweep.findings(results, "")
    assert isinstance(table, Table)
    assert table.headings == ["clients", "seeds", *STATISTICS.values(), "effective rank"]
    assert table.rows == [
        ["2", "2", "20.00 ± 14.14", "–", "20.00 ± 14.14", "20.00 ± 14.14", "–", "20.0 ± 14.1"],
        ["3", "1 of 2", "50.00", "–", "50.00", "50.00", "–", "50.0"],
    ]
    assert not isinstance(figure, Table)
    lines = [(line.name, list(line.y)) for line in figure.draw().data if line.name]
    assert lines == [("clients = 2", [20.0]), ("clients = 3", [50.0])]
    assert [each.title for each in others] == ["Effective rank per round", "Singular spectra"]
