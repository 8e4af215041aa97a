"""The numbers that the paper prints, by the labels of our studies."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
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


@dataclass(frozen=True)
class Stored:
    """A table as the file has it: under its key, tables in tables by the values of `levels`; `all_have` the rest."""

    key: str
    levels: Sequence[str]
    all_have: Labels = field(default_factory=dict)

    def read(self, document: Mapping[str, Any]) -> Iterator[Published]:
        """Yield its numbers."""
        yield from self._below(document[self.key], self.levels, self.all_have)

    def _below(self, found: Any, levels: Sequence[str], labels: Labels) -> Iterator[Published]:
        if levels:
            for text, inner in found.items():
                yield from self._below(inner, levels[1:], {**labels, **READ[levels[0]](text)})
        elif isinstance(found, Mapping):
            yield Published(labels, found["mean"], found["std"])
        else:
            yield Published(labels, found)


READ: dict[str, Callable[[str], Labels]] = {
    "data": lambda text: {"data": text},
    "row": lambda text: dict(zip(("method", "regularizer"), ROWS[text], strict=True)),
    "alpha": lambda text: {"alpha": text if text == "inf" else float(text)},
    "clients": lambda text: {"clients": int(text)},
    "epochs": lambda text: {"epochs": int(text)},
    "model": lambda text: {"model": text.lower()},
    "classes": lambda text: {"classes": int(text.removeprefix("C="))},
}
"""The labels that a key of the file stands for, by level."""

STORED = {
    "main": Stored(
        "main_tables (CIFAR10/100, TinyImageNet; 10 clients; incl. appendix rows Scaffold, FedNova)",
        ("data", "row", "alpha"),
    ),
    "clients": Stored("clients_ablation (TinyImageNet, FedAvg)", ("clients", "row", "alpha"), {"data": "tinyimagenet"}),
    "epochs": Stored("local_epochs_ablation (FedAvg)", ("epochs", "data", "row", "alpha")),
    "decorrelation": Stored("decorrelation_methods (TinyImageNet, FedAvg)", ("alpha", "row"), {"data": "tinyimagenet"}),
    "architectures": Stored(
        "architectures (CIFAR10, alpha 0.05)", ("model", "row"), {"data": "cifar10", "alpha": 0.05}
    ),
    "classes": Stored("classes_per_client (CIFAR10, 10 clients)", ("classes", "row"), {"data": "cifar10"}),
    "computation": Stored(
        "computation (minutes for one round, 10 clients, alpha 0.5, one V100)", ("row", "data"), {"alpha": 0.5}
    ),
}


@cache
def tables() -> Mapping[str, tuple[Published, ...]]:
    """Read all tables; a key that is missing in the file is an error at once."""
    document = json.loads(files("feddecorr.paper").joinpath("data/paper_results.json").read_text())
    return {name: tuple(stored.read(document)) for name, stored in STORED.items()}
