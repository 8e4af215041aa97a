"""The pictures of the reproduction's page, of the recorded runs."""

from __future__ import annotations

import subprocess
import sys

from benchmarks.quotes.records import ROOT

MAIN = (
    "data.name = cifar10 and partition.name = dirichlet and clients = 10 and model.name = resnet18"
    " and model.width = 0.25 and model.norm = batch and model.head = linear and method.name = fedavg"
    " and buffers = average and training.epochs = 1 and rounds = 60"
    " and not (regularizers.decov.weight > 0 or regularizers.structured_decov.weight > 0)"
    " and not (regularizers.feddecorr.beta < 0.1 or regularizers.feddecorr.beta > 0.1)"
    " and not regularizers.feddecorr.normalization = paper"
)
"""FedAvg without and with FedDecorr, as the paper's strength has it."""

PICTURES: dict[str, str] = {
    "spectra": MAIN,
    "local-spectra": MAIN,
    "accuracy": f"{MAIN} and partition.alpha != 0.01 and partition.alpha != 0.25",
}
"""The conditions of the runs that each shows."""


def draw() -> None:
    """Draw all of them."""
    for name, condition in PICTURES.items():
        file = ROOT / "docs" / "reproduction" / f"{name}.svg"
        words = ["figure", name, ROOT / "results/small.jsonl", "--where", condition, "--panels", "partition.alpha"]
        subprocess.run([sys.executable, "-m", "feddecorr", *map(str, words), "-o", str(file)], check=True)
