import pytest

from feddecorr.paper.values import named, published, tables
from feddecorr.results.study import Labels

MAIN: Labels = {"method": "fedavg", "regularizer": "feddecorr", "alpha": 0.05}


def test_every_table_of_the_paper_is_there_in_full() -> None:
    """Rows times columns of each."""
    sizes = {name: len(values) for name, values in tables().items()}
    assert sizes == {
        "main": 3 * 10 * 4,
        "clients": 5 * 2 * 3,
        "epochs": 4 * 2 * 2 * 2,
        "decorrelation": 3 * 4,
        "architectures": 3 * 2,
        "classes": 2 * 2,
        "computation": 4 * 3,
    }


@pytest.mark.parametrize(
    ("table", "labels", "text"),
    [
        ("main", {**MAIN, "data": "cifar10"}, "73.06 ± 0.81"),
        ("main", {**MAIN, "data": "cifar100", "alpha": "inf"}, "73.87 ± 0.18"),
        ("clients", {**MAIN, "data": "tinyimagenet", "clients": 30}, "36.50"),
        ("epochs", {**MAIN, "data": "cifar100", "epochs": 1}, "53.18"),
        ("architectures", {**MAIN, "data": "cifar10", "model": "resnet32"}, "67.21"),
        ("classes", {"data": "cifar10", "method": "fedavg", "regularizer": "none", "classes": 2}, "45.61"),
        ("decorrelation", {**MAIN, "data": "tinyimagenet", "regularizer": "decov"}, "32.88"),
        ("computation", {**MAIN, "data": "cifar10", "method": "moon", "regularizer": "none", "alpha": 0.5}, "12.20"),
    ],
)
def test_numbers_are_found_by_labels(table: str, labels: Labels, text: str) -> None:
    """As the paper prints them."""
    (value,) = published(table, labels)
    assert value.text() == text


def test_the_same_cell_appears_in_several_tables_with_one_value() -> None:
    """Ten clients, ten epochs and MobileNetV2 are the settings of the main tables, too."""
    for table in ("clients", "epochs", "decorrelation", "architectures"):
        for value in tables()[table]:
            labels = value.labels
            special = {"clients": 10, "epochs": 10, "model": "mobilenetv2"}
            if all(labels.get(name, wanted) == wanted for name, wanted in special.items()) and labels[
                "regularizer"
            ] in ("none", "feddecorr"):
                (main,) = published("main", labels)
                assert main.mean == value.mean, (table, labels)


def test_on_other_data_the_data_of_the_paper_are_named() -> None:
    """A small study on CIFAR-10 is compared with a table of TinyImageNet, and with none that its study lacks."""
    labels: Labels = {**MAIN, "data": "cifar10", "clients": 30}
    (value,) = published("clients", labels, ["tinyimagenet"])
    assert named(value.text(), value, labels) == "36.50 (tinyimagenet)"
    assert published("clients", labels, ["cifar100"]) == []
    assert published("clients", {**labels, "clients": 7}, ["tinyimagenet"]) == []
