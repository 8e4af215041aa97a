"""The main tables, the curves over the rounds, and what the gain depends on."""

from __future__ import annotations

from feddecorr.paper.figures import over, per_round
from feddecorr.paper.grid import Grid, vary
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
        axes=vary(data, method=FOUR, regularizer=BOTH, alpha=ALPHAS),
        makes=(accuracy("main"), gains("main"), ranks),
    )


CIFAR10 = main_table("cifar10", name="CIFAR-10", place="table 1")
CIFAR100 = main_table("cifar100", name="CIFAR-100", place="table 1")
TINYIMAGENET = main_table("tinyimagenet", name="TinyImageNet", place="table 2")

ROUNDS = Grid(
    name="rounds",
    shows="accuracy per round of FedAvg without and with FedDecorr",
    place="figure 4",
    axes=vary(*ALL_DATA, regularizer=BOTH, alpha=ALPHAS),
    makes=(
        per_round("accuracy", panels=("data", "alpha"), what="accuracy"),
        per_round("effective_rank", panels=("data", "alpha"), what="effective rank"),
        accuracy("main"),
        gains("main"),
        ranks,
    ),
)


def decorrelates_fedavg_alone(labels: Labels) -> bool:
    """Return whether to run it: other methods go without FedDecorr."""
    return labels["method"] == "fedavg" or labels["regularizer"] == "none"


BASELINES = Grid(
    name="baselines",
    shows="SCAFFOLD and FedNova compared with FedAvg with FedDecorr",
    place="tables 8 and 9",
    axes=vary(*ALL_DATA, method=("scaffold", "fednova", "fedavg"), regularizer=BOTH, alpha=ALPHAS),
    makes=(accuracy("main"), ranks),
    wants=decorrelates_fedavg_alone,
)
"""SCAFFOLD and FedNova, which FedDecorr on FedAvg is compared with."""


CLIENTS = Grid(
    name="clients",
    shows="FedAvg without and with FedDecorr for 10 to 100 clients",
    place="table 3",
    axes=vary("tinyimagenet", clients=(10, 20, 30, 50, 100), regularizer=BOTH, alpha=(0.05, 0.1, 0.5)),
    makes=(accuracy("clients"), gains("clients"), over("clients", panels=("data", "alpha"))),
)
"""With 50 and 100 clients a fifth participates in each of twice as many rounds."""


BETA = Grid(
    name="beta",
    shows="FedDecorr with different beta",
    place="figure 5",
    axes=vary("cifar10", "tinyimagenet", alpha=(0.05, 0.1), beta=(0, 0.01, 0.05, 0.1, 0.2, 0.3)),
    makes=(accuracy(), gains(axis="beta", base=0), over("beta", panels=("data",)), ranks),
)
"""The paper has the values in a figure only; zero is FedAvg without the term."""


EPOCHS = Grid(
    name="epochs",
    shows="FedAvg without and with FedDecorr for 1 to 20 local epochs",
    place="table 4",
    axes=vary("cifar100", "tinyimagenet", epochs=(1, 5, 10, 20), regularizer=BOTH, alpha=(0.05, 0.1)),
    makes=(accuracy("epochs"), gains("epochs"), over("epochs", panels=("data", "alpha"))),
)
"""Local epochs in a round."""


DECORRELATION = Grid(
    name="decorrelation",
    shows="FedDecorr compared with DeCov and Structured-DeCov",
    place="table 6",
    axes=vary("tinyimagenet", regularizer=(*BOTH, "decov", "structured_decov"), alpha=(0.05, 0.1, 0.5)),
    makes=(accuracy("decorrelation"), gains("decorrelation"), ranks),
)
"""The paper does not say with which weights DeCov and Structured-DeCov were trained; here their defaults."""


ARCHITECTURES = Grid(
    name="architectures",
    shows="FedAvg without and with FedDecorr for wide and narrow networks",
    place="table 7",
    axes=vary("cifar10", model=("mobilenetv2", "resnet18", "resnet32"), regularizer=BOTH, alpha=(0.05,)),
    makes=(accuracy("architectures"), gains("architectures"), ranks),
)
"""Wide and narrow representations: d is 1280, 512 and 64."""


CLASSES_PER_CLIENT = Grid(
    name="classes",
    shows="FedAvg without and with FedDecorr when each client holds C classes",
    place="table 10",
    axes=vary("cifar10", classes=(2, 3), regularizer=BOTH),
    makes=(accuracy("classes"), gains("classes"), ranks),
)
"""Another kind of heterogeneity: every client holds C classes."""
