"""Singular values of the representations' covariance: heterogeneity lowers them, FedDecorr raises the tail."""

from __future__ import annotations

from dataclasses import replace

from feddecorr.paper.drawings import all_client_spectra, client_spectra, spectra
from feddecorr.paper.grid import Grid
from feddecorr.paper.studies.accuracy import BOTH
from feddecorr.paper.tables import ranks

ALPHAS = (0.01, 0.05, 0.25, "inf")


COLLAPSE = Grid(
    name="collapse",
    shows="spectra of global models for different alpha",
    place="figure 2a",
    settings="evaluation.clients=last",
    axes={"data": ("cifar100",), "method": ("fedavg",), "regularizer": ("none",), "alpha": ALPHAS},
    makes=(spectra(panels=("data",)), ranks),
)
"""Global models of FedAvg; the local ones are recorded too, so that the other studies can share the runs."""


COLLAPSE_METHODS = Grid(
    name="collapse-methods",
    shows="spectra of global models of other methods",
    place="figure 7",
    axes={"data": ("cifar100",), "method": ("fedavgm", "fedprox", "moon"), "alpha": ALPHAS},
    makes=(spectra(panels=("data", "method")), ranks),
)
"""It is not FedAvg alone."""


COLLAPSE_MODELS = Grid(
    name="collapse-models",
    shows="spectra of global models of other networks",
    place="figure 8",
    axes={"data": ("cifar100",), "method": ("fedavg",), "model": ("resnet32", "resnet18"), "alpha": ALPHAS},
    makes=(spectra(panels=("data", "model")), ranks),
)
"""It is not MobileNetV2 alone."""


COLLAPSE_DATA = Grid(
    name="collapse-data",
    shows="spectra of global models on other data sets",
    place="figure 9",
    axes={"data": ("cifar10", "tinyimagenet"), "method": ("fedavg",), "alpha": ALPHAS},
    makes=(spectra(panels=("data",)), ranks),
)
"""It is not CIFAR-100 alone."""


COLLAPSE_LOCAL = replace(
    COLLAPSE,
    name="collapse-local",
    shows="spectra of local models for different alpha",
    place="figures 2b and 10",
    makes=(client_spectra(panels=("data",)), all_client_spectra(panels=("data",)), ranks),
)
"""The clients' models before they are averaged, of the last round: the first client, and all of them."""


MITIGATION = Grid(
    name="mitigation",
    shows="spectra without and with FedDecorr",
    place="figure 3",
    settings="evaluation.clients=last",
    axes={"data": ("cifar100",), "method": ("fedavg",), "regularizer": BOTH, "alpha": (0.01, 0.05)},
    makes=(
        client_spectra(panels=("data", "alpha")),
        all_client_spectra(panels=("data", "alpha")),
        spectra(panels=("data", "alpha")),
        ranks,
    ),
)
"""Local and global models, without and with FedDecorr, under strong heterogeneity."""
