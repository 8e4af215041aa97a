"""What tables say."""

import pytest
from made_up import results, summary

from feddecorr.paper.studies import STUDIES
from feddecorr.results.study import Arm, Table
from feddecorr.results.summary import Summary


def tables(name: str, gain: float, scale: str = "paper", seeds: int = 3, *, absent: int | None = None) -> list[Table]:
    """Return the tables of a study in which FedDecorr gains so much, and the runs of one seed are missing."""

    def make(arm: Arm) -> Summary | None:
        seed = int(arm.labels["seed"])
        more = gain if arm.labels["regularizer"] == "feddecorr" else 0.0
        return None if seed == absent else summary(arm, accuracy=0.5 + 0.01 * seed + more, local_rank=8.0)

    study = STUDIES[name]
    found = study.findings(results(study.arms(scale, seeds), make), scale)
    return [finding for finding in found if isinstance(finding, Table)]


def row(table: Table, *starts: str) -> dict[str, str]:
    """Return the row with these labels, by heading."""
    (found,) = [row for row in table.rows if tuple(row[: len(starts)]) == starts]
    return dict(zip(table.headings, found, strict=True))


def test_accuracy_is_mean_and_deviation_over_seeds_next_to_the_papers() -> None:
    """0.50, 0.51 and 0.52 by all three statistics."""
    found = row(tables("cifar10", 0.0)[0], "FedAvg", "CIFAR-10", "0.05")
    assert found["seeds"] == "3"
    assert [found[name] for name in ("last round", "mean of the last ten", "best round")] == ["51.00 ± 1.00"] * 3
    assert found["paper"] == "64.85 ± 2.01"


def test_gains_are_paired_differences_next_to_the_papers() -> None:
    """Three points in each seed have no spread."""
    found = row(tables("cifar10", 0.03)[1], "MOON (μ = 1.0) + FedDecorr", "CIFAR-10", "0.1")
    assert found["mean of the last ten"] == "+3.00 [+3.00, +3.00], 3 of 3"
    assert found["paper"] == "+2.93"


def test_a_seed_that_is_missing_is_counted() -> None:
    """The others are shown without it."""
    first, second, _ = tables("cifar10", 0.03, absent=1)
    found = row(first, "FedAvg", "CIFAR-10", "0.05")
    assert (found["seeds"], found["last round"]) == ("2 of 3", "51.00 ± 1.41")
    assert row(second, "FedAvg + FedDecorr", "CIFAR-10", "0.05")["last round"].endswith("2 of 2")


def test_one_seed_has_no_spread() -> None:
    """Neither a deviation nor an interval."""
    first, second, _ = tables("cifar10", 0.03, seeds=1)
    assert row(first, "FedAvg", "CIFAR-10", "0.05")["last round"] == "50.00"
    assert row(second, "FedAvg + FedDecorr", "CIFAR-10", "0.05")["last round"] == "+3.00, 1 of 1"


def test_a_table_names_each_departure_from_the_papers_text() -> None:
    """Those of its own runs, and no other."""
    cifar10, tiny = (tables(name, 0.0)[0].note for name in ("cifar10", "tinyimagenet"))
    assert "server momentum is 0.9 on CIFAR-10" in cifar10
    assert "projection head" in cifar10
    assert "server momentum is 0.9" not in tiny
    assert "projection head" not in tiny


@pytest.mark.parametrize(("global_rank", "change"), [(4.0, "-50 %"), (8.0, "+0 %"), (16.0, "+100 %")])
def test_averaging_compares_the_average_with_what_it_is_made_of(global_rank: float, change: str) -> None:
    """Clients' models of rank eight."""
    study = STUDIES["averaging"]
    made = results(study.arms("paper", 3), lambda arm: summary(arm, rank=global_rank, local_rank=8.0))
    table = study.findings(made, "paper")[0]
    assert isinstance(table, Table)
    assert all(row[-1].startswith(change) for row in table.rows)
