"""The numbers that the paper prints, by the labels of our studies."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from feddecorr.results.study import Label, Labels

ROWS: dict[str, tuple[str, str]] = {
    "FedAvg": ("fedavg", "none"),
    "FedAvg+FedDecorr": ("fedavg", "feddecorr"),
    "FedProx": ("fedprox", "none"),
    "FedProx+FedDecorr": ("fedprox", "feddecorr"),
    "FedAvgM": ("fedavgm", "none"),
    "FedAvgM+FedDecorr": ("fedavgm", "feddecorr"),
    "MOON": ("moon", "none"),
    "MOON+FedDecorr": ("moon", "feddecorr"),
    "Scaffold": ("scaffold", "none"),
    "FedNova": ("fednova", "none"),
    "DeCov": ("fedavg", "decov"),
    "Structured-DeCov": ("fedavg", "structured_decov"),
    "FedDecorr": ("fedavg", "feddecorr"),
}
"""What the rows of the paper's tables are: a method and a regularizer."""


@dataclass(frozen=True)
class Published:
    """A number of the paper: what it is of, its value, and ± what, where that is printed."""

    labels: Labels
    mean: float
    std: float | None = None

    def text(self, digits: int = 2) -> str:
        """Return it as the paper prints it."""
        return f"{self.mean:.{digits}f}" + ("" if self.std is None else f" ± {self.std:.{digits}f}")


def published(table: str, labels: Labels, data: Sequence[Label] = ()) -> list[Published]:
    """Return what a table of the paper says of runs with these labels.

    A study may have run on other data than the paper's. Then it is what the table says of those in `data`.
    """
    same = [
        value
        for value in tables()[table]
        if all(labels.get(name) == wanted for name, wanted in value.labels.items() if name != "data")
    ]
    exact = [value for value in same if value.labels["data"] == labels.get("data")]
    return exact or [value for value in same if value.labels["data"] in data]


def named(text: str, of: Published, labels: Labels) -> str:
    """Return a text about a number of the paper, with its data set where that is not the run's own."""
    return text if of.labels["data"] == labels.get("data") else f"{text} ({of.labels['data']})"


@cache
def tables() -> Mapping[str, tuple[Published, ...]]:
    """Read all tables; a key that is missing in the file is an error at once."""
    text = files("feddecorr.paper").joinpath("data/paper_results.json").read_text()
    stored: dict[str, Any] = json.loads(text)
    return {name: tuple(read(stored)) for name, read in _READERS.items()}


def _row(name: str, **labels: Label) -> Labels:
    method, regularizer = ROWS[name]
    return {**labels, "method": method, "regularizer": regularizer}


def _alpha(text: str) -> Label:
    return text if text == "inf" else float(text)


def _main(stored: dict[str, Any]) -> Iterator[Published]:
    key = "main_tables (CIFAR10/100, TinyImageNet; 10 clients; incl. appendix rows Scaffold, FedNova)"
    for data, rows in stored[key].items():
        for row, columns in rows.items():
            for alpha, value in columns.items():
                yield Published(_row(row, data=data, alpha=_alpha(alpha)), value["mean"], value["std"])


def _clients(stored: dict[str, Any]) -> Iterator[Published]:
    for clients, rows in stored["clients_ablation (TinyImageNet, FedAvg)"].items():
        for row, columns in rows.items():
            for alpha, mean in columns.items():
                labels = _row(row, data="tinyimagenet", clients=int(clients), alpha=_alpha(alpha))
                yield Published(labels, mean)


def _epochs(stored: dict[str, Any]) -> Iterator[Published]:
    for epochs, sets in stored["local_epochs_ablation (FedAvg)"].items():
        for data, rows in sets.items():
            for row, columns in rows.items():
                for alpha, mean in columns.items():
                    yield Published(_row(row, data=data, epochs=int(epochs), alpha=_alpha(alpha)), mean)


def _decorrelation(stored: dict[str, Any]) -> Iterator[Published]:
    for alpha, rows in stored["decorrelation_methods (TinyImageNet, FedAvg)"].items():
        for row, mean in rows.items():
            yield Published(_row(row, data="tinyimagenet", alpha=_alpha(alpha)), mean)


def _architectures(stored: dict[str, Any]) -> Iterator[Published]:
    for model, rows in stored["architectures (CIFAR10, alpha 0.05)"].items():
        for row, mean in rows.items():
            yield Published(_row(row, data="cifar10", model=model.lower(), alpha=0.05), mean)


def _classes(stored: dict[str, Any]) -> Iterator[Published]:
    for classes, rows in stored["classes_per_client (CIFAR10, 10 clients)"].items():
        for row, mean in rows.items():
            yield Published(_row(row, data="cifar10", classes=int(classes.removeprefix("C="))), mean)


def _computation(stored: dict[str, Any]) -> Iterator[Published]:
    for row, sets in stored["computation (minutes for one round, 10 clients, alpha 0.5, one V100)"].items():
        for data, minutes in sets.items():
            yield Published(_row(row, data=data, alpha=0.5), minutes)


_READERS: dict[str, Callable[[dict[str, Any]], Iterator[Published]]] = {
    "main": _main,
    "clients": _clients,
    "epochs": _epochs,
    "decorrelation": _decorrelation,
    "architectures": _architectures,
    "classes": _classes,
    "computation": _computation,
}
