import pytest
from made_up import over_seeds, summary

from feddecorr.errors import UserError
from feddecorr.results.groups import group_runs


def names(*words: str, asked: tuple[str, ...] = ()) -> list[str]:
    cells = group_runs([summary(each) for each in words], asked)
    return [cell.name(list(cell.labels)) for cell in cells]


def test_runs_that_differ_in_the_seed_alone_are_one_cell() -> None:
    (cell,) = group_runs(over_seeds("", [0.1, 0.2, 0.3]))
    assert (list(cell.runs), cell.labels, cell.asked) == ([0, 1, 2], {}, 3)


def test_numbers_are_sorted_by_size() -> None:
    found = names(*(f"partition.alpha={alpha}" for alpha in ("inf", 0.5, 0.05)))
    assert found == ["α = 0.05", "α = 0.5", "α = ∞"]


def test_kinds_are_reported_by_name_and_by_the_options_that_vary() -> None:
    found = names("method=fedavg", "method=fedprox method.mu=0.1", "method=fedprox method.mu=0.01")
    assert found == ["FedAvg", "FedProx (μ = 0.01)", "FedProx (μ = 0.1)"]
    assert names("method=fedavg", "method=fedprox") == ["FedAvg", "FedProx (μ = 0.001)"]


def test_runs_with_and_without_a_regularizer_differ_in_one_setting() -> None:
    assert names("regularizers=feddecorr", "") == ["FedAvg", "FedAvg + FedDecorr"]
    several = [f"regularizers=feddecorr regularizers.feddecorr.beta={beta}" for beta in (0.2, 0.1)]
    assert names(*several) == ["β = 0.1", "β = 0.2"]
    assert names("", *several) == ["FedAvg", "FedAvg + FedDecorr (β = 0.1)", "FedAvg + FedDecorr (β = 0.2)"]


def test_kinds_come_in_the_order_of_their_registry_and_an_arm_alone_has_its_whole_name() -> None:
    assert names("method=scaffold", "method=moon", "method=fedavg") == ["FedAvg", "MOON (μ = 1.0)", "SCAFFOLD"]
    assert names("method=fedprox regularizers=feddecorr") == ["FedProx (μ = 0.001) + FedDecorr"]
    assert names("model=resnet18", "model=mlp") == ["MLP", "ResNet18"]


def test_settings_that_are_asked_for_come_first_and_have_to_exist() -> None:
    assert names("seed=0", "clients=5", asked=("data",)) == ["CIFAR-10, clients = 5", "CIFAR-10, clients = 10"]
    with pytest.raises(UserError, match=r"no run has a setting 'partition\.alfa'"):
        group_runs([summary()], ["partition.alfa"])
