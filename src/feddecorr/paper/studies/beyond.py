"""Questions that the paper leaves open."""

from __future__ import annotations

import math
from itertools import pairwise
from statistics import fmean

from feddecorr.paper.figures import all_client_spectra, over, per_round, spectra
from feddecorr.paper.grid import Grid, GridResults, vary
from feddecorr.paper.studies.accuracy import BOTH
from feddecorr.paper.tables import Columns, accuracy, dimensions, gains, measured, ranks, tabulate
from feddecorr.results.curves import change_by_averaging, typical_local_ranks
from feddecorr.results.groups import MISSING, Cell, sample_runs
from feddecorr.results.sample import Sample
from feddecorr.results.study import Finding
from feddecorr.results.summary import Summary

LOSS_SCALE = Grid(
    name="loss-scale",
    shows="both scales of the loss at several beta",
    place="beyond the paper",
    axes=vary("cifar10", normalization=("released", "paper"), beta=(0, 0.01, 0.1, 1, 6.4), alpha=(0.1,)),
    makes=(accuracy(), gains(axis="beta", base=0), ranks, over("beta", panels=("data", "alpha"))),
)
"""Which strength does what: the paper's formula and the scale of its authors' code; zero is without the term."""


SCHEDULE = Grid(
    name="schedule",
    shows="FedAvg without and with FedDecorr while the learning rate is constant, and after it was annealed",
    place="beyond the paper",
    axes=vary("cifar10", schedule=("constant, then annealed", "cosine"), regularizer=BOTH, alpha=(0.1,)),
    makes=(
        accuracy(),
        gains(),
        ranks,
        per_round("accuracy", panels=("data", "schedule"), what="accuracy"),
    ),
)
"""Does annealing the learning rate take the gain away? The paper's learning rate is constant."""


MANY_CLASSES = Grid(
    name="many-classes",
    shows="FedAvg without and with FedDecorr on data of 100 and 200 classes, for 10 and 30 clients",
    place="beyond the paper",
    axes=vary("cifar100", "tinyimagenet", clients=(10, 30), regularizer=BOTH, alpha=(0.05,)),
    makes=(accuracy(), gains(), ranks),
)
"""Where the paper's gains are largest. Its runs with ten clients are those of the accuracy tables."""


NORMS = Grid(
    name="norms",
    shows="BatchNorm and GroupNorm without and with FedDecorr",
    place="beyond the paper",
    axes=vary("cifar10", norm=("batch", "group"), regularizer=BOTH, alpha=(0.05, "inf")),
    makes=(accuracy(), gains(), ranks, spectra(panels=("data", "alpha"))),
)
"""BatchNorm's statistics are averaged between clients; GroupNorm has none."""


def living(results: GridResults) -> list[Finding]:
    """Make a table of the features that never vary, and of the dimensions that are left."""
    columns: Columns = {
        "dead features": measured("last", "dead_features", 1),
        "of": dimensions,
        "effective rank": measured("last", "effective_rank", 1),
        "accuracy (%), last round": measured("last", factor=100),
        "accuracy (%), all rounds": measured("transient", factor=100),
    }
    note = f"Of the global model after the last round, but for the mean accuracy of all rounds. {results.note}"
    return [tabulate("Features that never vary", results.cells, columns, note)]


DYING = Grid(
    name="dying",
    shows="features that FedDecorr kills, by network and remedy",
    place="beyond the paper",
    axes=vary(
        "cifar10",
        model=(
            "perceptron",
            "perceptron with LayerNorm",
            "perceptron with BatchNorm",
            "perceptron without last ReLU",
            "lenet",
            "convnet",
            "convnet with GroupNorm",
            "transformer",
        ),
        regularizer=(*BOTH, "feddecorr, dying counted", "feddecorr and variance"),
        alpha=(0.1,),
    ),
    makes=(living, gains()),
)
"""Where nothing normalizes before the representation, a dead feature is the cheapest uncorrelated one."""

DYING_BY_BETA = Grid(
    name="dying-by-beta",
    shows="features that FedDecorr kills, by its strength, with ten clients and centralised",
    place="beyond the paper",
    axes=vary("cifar10", model=("perceptron", "lenet"), clients=(10, 1), beta=(0, 0.01, 0.1, 1), alpha=(0.1,)),
    makes=(living, over("beta", panels=("model",), measure="dead_features")),
)
"""Does it take clients at all? One client holds all data, and trains as long as the ten do together."""

DYING_LARGER = Grid(
    name="dying-larger",
    shows="features that FedDecorr kills on images of full size: MOON's CNN, and a ResNet with GroupNorm",
    place="beyond the paper",
    axes={
        "data": ("cifar10",),
        "data.size": (32,),
        "method": ("fedavg",),
        "model": ("lenet", "resnet18 with GroupNorm"),
        "regularizer": (*BOTH, "feddecorr, dying counted"),
        "alpha": (0.1,),
    },
    makes=(living, gains()),
)
"""MOON's network for CIFAR-10 is LeNet without its projection head."""


def before_and_after(results: GridResults) -> list[Finding]:
    """Make a table of effective ranks before and after averaging, and by how much averaging changes them."""
    columns: Columns = {
        "clients' models": lambda cell: cell.text(typical_local_ranks(cell), 1),
        "their average": measured("last", "effective_rank", 1),
        "change": _change,
    }
    note = (
        "Effective ranks of the last round: the geometric mean over the clients' models, that of the global model made "
        f"of them, and the change from the one to the other [95 % interval over seeds]. {results.note}"
    )
    return [tabulate("Effective rank before and after", results.cells, columns, note)]


def _change(cell: Cell) -> str:
    sample = sample_runs(cell.runs, change_by_averaging)
    if not sample.values:
        return MISSING
    ends = [100 * math.expm1(end) for end in (sample.low, sample.high) if math.isfinite(end)]
    return f"{100 * math.expm1(sample.mean):+.0f} %" + (f" [{ends[0]:+.0f}, {ends[1]:+.0f}]" if ends else "")


AVERAGING = Grid(
    name="averaging",
    shows="the rank before and after averaging",
    place="beyond the paper",
    settings="evaluation.clients=last",
    axes=vary("cifar100", regularizer=BOTH, alpha=(0.01, 0.05, 0.25, "inf")),
    makes=(
        before_and_after,
        all_client_spectra(panels=("data", "regularizer")),
        spectra(panels=("data", "regularizer")),
    ),
)
"""Is the average of models more collapsed than they are? Its runs are those of the collapse, and some more."""


STEPS = 10
"""Of how many steps from one evaluated round to the next, the last ones of a run, the mean is taken."""


def mean_swing(run: Summary) -> float | None:
    """Return by how much accuracy changes from one evaluated round to the next, on the average of the last steps."""
    values = [line["model"]["accuracy"] for line in run.rounds if line["model"]]
    steps = [abs(after - before) for before, after in pairwise(values)][-STEPS:]
    return fmean(steps) if steps else None


def swings(results: GridResults) -> list[Finding]:
    """Make a table of swings, in percentage points, and of how far the best round is above the last ones."""
    columns: Columns = {
        "change from round to round": lambda cell: cell.text(sample_runs(cell.runs, mean_swing), factor=100),
        "best above the last ten": lambda cell: cell.text(_lucky(cell)),
    }
    note = (
        f"Percentage points: the mean absolute change of accuracy over the last {STEPS} steps from one evaluated round "
        f"to the next, and by how much the best round is above the mean of the last ten. {results.note}"
    )
    return [tabulate("Swing of the accuracy", results.cells, columns, note)]


def _lucky(cell: Cell) -> Sample:
    return cell.sample("best").minus(cell.sample("last_ten")).times(100)


SWING = Grid(
    name="swing",
    shows="how accuracy swings from round to round, by the treatment of BatchNorm's statistics",
    place="beyond the paper",
    axes=vary("cifar10", statistics=("average", "pooled", "fixed", "local", "none"), regularizer=BOTH, alpha=(0.05,)),
    makes=(
        swings,
        accuracy(),
        gains(axis="statistics", base="average"),
        ranks,
        per_round("accuracy", panels=("data", "alpha", "regularizer"), what="accuracy"),
    ),
)
"""Averaged, pooled, fixed after half of the rounds, each client's own; without any, networks have GroupNorm."""
