"""Precision and memory format: what makes a training step fastest, and what changes its result.

    python -m benchmarks.precision [MODEL ...] [--rounds 7] [--record NAME]

Trains each network with one thread on batches of 64 random images of 32×32, with every setting in turn, round by
round, so that a busy machine slows all of them alike. `--record` writes NAME.json with all times and NAME.md with
the table.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from benchmarks.recording import command, write_record
from feddecorr.config.training import Training
from feddecorr.core.randomness import generator, seeded
from feddecorr.engines.processes import keep_freed_memory
from feddecorr.models import MODELS
from feddecorr.objective.optimizers import FusedSGD
from feddecorr.training.placement import prepare

PLAIN = {"memory_format": "contiguous"}
SETTINGS: dict[str, dict[str, Any]] = {
    "fp32, contiguous": PLAIN,
    "fp32, channels_last": {},
    "bf16, contiguous": {**PLAIN, "precision": "bf16"},
    "bf16, channels_last": {"precision": "bf16"},
}
NETWORKS = ["convnet", "resnet20", "resnet32", "resnet18", "mobilenetv2"]
SHAPE, CLASSES, BATCH = (3, 32, 32), 10, 64


class Trainer:
    """A network in training under one setting."""

    def __init__(self, name: str, options: dict[str, Any]) -> None:
        with seeded(0, "model"):
            self.model = prepare(MODELS.parse(name).build(SHAPE, CLASSES), Training(**options), "cpu")
        self.parameters = list(self.model.parameters())
        self.optimizer = FusedSGD(self.parameters, lr=0.01, momentum=0.9, weight_decay=1e-5)
        self.times: list[float] = []
        self.first = torch.empty(0)

    def step(self, x: Tensor, y: Tensor) -> None:
        """Take one step and note its time; keep the first gradient."""
        started = time.perf_counter()
        gradient = torch.autograd.grad(cross_entropy(self.model(x), y), self.parameters)
        self.optimizer.step(gradient)
        self.times.append(time.perf_counter() - started)
        if not len(self.first):
            self.first = torch.cat([part.flatten() for part in gradient])


def exact_gradient(name: str, x: Tensor, y: Tensor) -> Tensor:
    """Return the first gradient in float64."""
    with seeded(0, "model"):
        model = MODELS.parse(name).build(SHAPE, CLASSES).double()
    gradient = torch.autograd.grad(cross_entropy(model(x.double()), y), list(model.parameters()))
    return torch.cat([part.flatten() for part in gradient])


def measure(name: str, rounds: int) -> dict[str, dict[str, Any]]:
    """Return, for each setting, the times of its steps and how far its first gradient is from that in float64."""
    pixels = torch.randn(BATCH, *SHAPE[1:], SHAPE[0], generator=generator(0, "images"))
    x, y = pixels.permute(0, 3, 1, 2), torch.arange(BATCH) % CLASSES
    exact = exact_gradient(name, x, y)
    trainers = {setting: Trainer(name, options) for setting, options in SETTINGS.items()}
    for _ in range(rounds + 1):
        for trainer in trainers.values():
            trainer.step(x, y)
    found = {}
    for setting, trainer in trainers.items():
        gap = float((trainer.first - exact).norm() / exact.norm())
        found[setting] = {"first_seconds": trainer.times[0], "seconds": trainer.times[1:], "gradient_error": gap}
    return found


def rows(found: dict[str, dict[str, dict[str, Any]]]) -> Iterator[list[str]]:
    """Yield the medians of each network and setting; speed-ups are medians of the ratios of neighbouring steps."""
    for name, settings in found.items():
        plain = next(iter(settings.values()))["seconds"]
        for setting, each in settings.items():
            ratio = median(before / after for before, after in zip(plain, each["seconds"], strict=True))
            numbers = f"{1000 * median(each['seconds']):.0f}", f"{ratio:.2f}×", f"{each['gradient_error']:.0e}"
            yield [name, setting, *numbers, f"{each['first_seconds']:.1f}"]


def table(found: dict[str, dict[str, dict[str, Any]]]) -> str:
    """Return all of them in Markdown."""
    head = [
        "| network | setting | ms a step | speed | error of the first gradient | first step (s) |",
        "| --- | --- | ---: | ---: | ---: | ---: |",
    ]
    return "\n".join([*head, *(f"| {' | '.join(row)} |" for row in rows(found))])


def main() -> None:
    """Measure and print, and record if wanted."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", default=NETWORKS, help=f"by default {', '.join(NETWORKS)}")
    parser.add_argument("--rounds", type=int, default=7, help="steps of each setting that count")
    parser.add_argument("--record", type=Path, help="NAME of the files NAME.json and NAME.md")
    arguments = parser.parse_args()
    keep_freed_memory()
    torch.set_num_threads(1)
    found = {}
    for name in arguments.networks:
        found[name] = measure(name, arguments.rounds)
        print(f"{name} is measured", file=sys.stderr, flush=True)
    print(table(found))
    if arguments.record:
        processor = dict(torch.cpu.get_capabilities())
        write_record(arguments.record.with_suffix(".json"), {"processor": processor, "found": found})
        arguments.record.with_suffix(".md").write_text(
            f"# {arguments.record.name}\n\n    {command()}\n\n{table(found)}\n"
        )


if __name__ == "__main__":
    main()
