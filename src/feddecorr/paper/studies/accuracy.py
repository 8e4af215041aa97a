"""The paper's main tables, and its curves over the rounds."""

from __future__ import annotations

from feddecorr.paper.drawings import per_round
from feddecorr.paper.grid import Grid
from feddecorr.paper.tables import accuracy, gains, ranks
from feddecorr.results.study import Labels

BOTH = ("none", "feddecorr")
FOUR = ("fedavg", "fedprox", "fedavgm", "moon")
ALPHAS = (0.05, 0.1, 0.5, "inf")
ALL_DATA = ("cifar10", "cifar100", "tinyimagenet")


def main_table(data: str, *, name: str, place: str) -> Grid:
    """Return the study of four methods, each without and with FedDecorr, under four degrees of heterogeneity."""
    return Grid(
        name=data,
        shows=f"four methods without and with FedDecorr on {name}",
        place=place,
        axes={"data": (data,), "method": FOUR, "regularizer": BOTH, "alpha": ALPHAS},
        makes=(accuracy("main"), gains("main"), ranks),
    )


CIFAR10 = main_table("cifar10", name="CIFAR-10", place="table 1")
CIFAR100 = main_table("cifar100", name="CIFAR-100", place="table 1")
TINYIMAGENET = main_table("tinyimagenet", name="TinyImageNet", place="table 2")

ROUNDS = Grid(
    name="rounds",
    shows="accuracy per round of FedAvg without and with FedDecorr",
    place="figure 4",
    axes={"data": ALL_DATA, "method": ("fedavg",), "regularizer": BOTH, "alpha": ALPHAS},
    makes=(
        per_round("accuracy", panels=("data", "alpha"), what="accuracy"),
        per_round("effective_rank", panels=("data", "alpha"), what="effective rank"),
        accuracy("main"),
        gains("main"),
        ranks,
    ),
)


def decorrelates_fedavg_alone(labels: Labels) -> bool:
    """Tell that other methods are run without FedDecorr only."""
    return labels["method"] == "fedavg" or labels["regularizer"] == "none"


BASELINES = Grid(
    name="baselines",
    shows="SCAFFOLD and FedNova beside FedAvg with FedDecorr",
    place="tables 8 and 9",
    axes={"data": ALL_DATA, "method": ("scaffold", "fednova", "fedavg"), "regularizer": BOTH, "alpha": ALPHAS},
    makes=(accuracy("main"), ranks),
    wants=decorrelates_fedavg_alone,
)
"""SCAFFOLD and FedNova, which FedDecorr on FedAvg is compared with."""
