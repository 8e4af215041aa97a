"""What augmentation adds to a training step of ResNet20 (batch 64, 3×32×32, one thread), as a share of the step.

    python -m benchmarks.augmentation_cost [--repeats 40] [--size 32] [--record results/augmentation_cost.json]

One model in one process takes single steps as a client does (pixels by index, augmentation, normalization, forward,
backward, SGD), each contestant in turn, so that whatever else the machine does hits all alike; time is the thread's
own. Within each step the augmentation is timed by itself. `share` is the median time of augmentation over the median
time of a step without. `ratio` is the median over all turns of a whole step with over the one without; it carries
the noise of two whole steps.
"""

from __future__ import annotations

import argparse
import time
from operator import truediv
from pathlib import Path
from statistics import median

import torch
from torch.nn.functional import cross_entropy

from benchmarks.recording import write_record
from feddecorr.config.training import Training
from feddecorr.data.augmentation import augment
from feddecorr.data.builtin import Synthetic
from feddecorr.engines.processes import keep_freed_memory
from feddecorr.models import ResNet20
from feddecorr.objective.optimizers import FusedSGD
from feddecorr.training.placement import prepare

CONTESTANTS: dict[str, tuple[str, ...]] = {
    "none": (),
    "crop,flip": ("crop", "flip"),
    "autoaugment": ("autoaugment",),
    "crop,flip,autoaugment": ("crop", "flip", "autoaugment"),
}

Seconds = dict[str, list[tuple[float, float]]]
"""For each contestant and step: seconds of the whole step, and of augmentation within it."""


def steps(repeats: int, size: int) -> Seconds:
    """Time training steps, each contestant in turn."""
    torch.manual_seed(0)
    dataset = Synthetic(size=size).load()
    model = prepare(ResNet20().build((3, size, size), 10), Training(), "cpu")
    parameters = list(model.parameters())
    optimizer = FusedSGD(parameters, lr=1e-3, momentum=0.9, weight_decay=1e-5)
    chance = torch.Generator().manual_seed(0)

    def step(names: tuple[str, ...]) -> tuple[float, float]:
        batch = torch.randint(len(dataset.train), (64,), generator=chance)
        started = time.thread_time()
        pixels = dataset.train.pixels.index_select(0, batch)
        before = time.thread_time()
        pixels = augment(pixels, names, chance)
        augmentation = time.thread_time() - before
        loss = cross_entropy(model(dataset.normalize(pixels)), dataset.train.labels[batch])
        optimizer.step(torch.autograd.grad(loss, parameters))
        return time.thread_time() - started, augmentation

    names = list(CONTESTANTS)
    for name in names:  # warm up
        step(CONTESTANTS[name])
    seconds: Seconds = {name: [] for name in names}
    for turn in range(repeats):
        for name in names if turn % 2 else reversed(names):
            seconds[name].append(step(CONTESTANTS[name]))
    return seconds


def main() -> None:
    """Measure, print, and record if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=40)
    parser.add_argument("--size", type=int, default=32)
    parser.add_argument("--record", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    keep_freed_memory()
    seconds = steps(arguments.repeats, arguments.size)
    wholes = {name: [whole for whole, _ in found] for name, found in seconds.items()}
    plain = median(wholes["none"])
    found = {
        name: {
            "share": median(part for _, part in some) / plain,
            "ratio": median(map(truediv, wholes[name], wholes["none"])),
            "milliseconds of augmentation": 1000 * median(part for _, part in some),
            "milliseconds of a step": 1000 * median(wholes[name]),
        }
        for name, some in seconds.items()
    }
    for name, numbers in found.items():
        print(f"{name:22}", ", ".join(f"{what} {value:.4f}" for what, value in numbers.items()))
    if arguments.record:
        write_record(arguments.record, found)


if __name__ == "__main__":
    main()
