from collections.abc import Sequence
from dataclasses import fields, replace
from typing import get_args

from made_up import results, summary

from feddecorr.collapse.diagnosis import Diagnosis
from feddecorr.methods import METHODS
from feddecorr.models.heads import Head
from feddecorr.paper.studies.rivals import NEURAL_COLLAPSE, RIVALS
from feddecorr.results.names import title
from feddecorr.results.study import Arm, Table
from feddecorr.results.summary import Summary


def table(arms: Sequence[Arm], seconds: dict[str, float]) -> dict[tuple[str, str], dict[str, str]]:
    """Return the rows of the first table by arm and head, where rounds take so long by method."""

    def make(arm: Arm) -> Summary:
        found = summary(arm, local_rank=5.0)
        measured = dict.fromkeys(NEURAL_COLLAPSE.values(), 0.25)
        time = seconds.get(str(arm.labels["method"]), 1.0)
        lines = [{**line, "seconds": time, "model": {**line["model"], **measured}} for line in found.rounds]
        return replace(found, rounds=lines)

    first = RIVALS.findings(results(arms, make), "small")[0]
    assert isinstance(first, Table)
    rows = [dict(zip(first.headings, row, strict=True)) for row in first.rows]
    return {(row["method"], row["head"]): row for row in rows}


def test_every_method_and_every_head_is_there_without_and_with_feddecorr() -> None:
    """Heads with FedAvg; a method that is made for a head has that one; and nothing is there twice."""
    rows = table(RIVALS.arms("small", 1), {})
    plain = [(arm, head) for arm, head in rows if not arm.endswith(" + FedDecorr")]
    assert {arm.partition(" (")[0] for arm, _ in plain} == set(map(title, METHODS.table))
    assert {head for arm, head in plain if arm == "FedAvg"} == set(get_args(Head))
    assert {head for arm, head in plain if arm.startswith("FedDr+")} == {"etf"}
    assert {(f"{arm} + FedDecorr", head) for arm, head in plain} <= rows.keys()
    assert len(rows) == 2 * (len(METHODS.table) + len(get_args(Head)) - 1)


def test_time_is_relative_to_fedavg() -> None:
    rows = table(RIVALS.arms("small", 1), {"moon": 1.5})
    assert rows["FedAvg", "linear"]["time of a round"] == "1.00"
    assert rows["MOON (μ = 1.0) + FedDecorr", "linear"]["time of a round"] == "1.50"


def test_neural_collapse_is_shown_as_it_is_recorded() -> None:
    """By names that a diagnosis has, all four of them."""
    assert set(NEURAL_COLLAPSE.values()) <= {field.name for field in fields(Diagnosis)}
    row = table(RIVALS.arms("smoke", 1), {})["FedAvg", "etf"]
    assert [row[name] for name in NEURAL_COLLAPSE] == ["0.250"] * 5
    assert {name[:3] for name in NEURAL_COLLAPSE} == {"NC1", "NC2", "NC3", "NC4"}
