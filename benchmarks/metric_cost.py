"""What `CollapseMetric` adds to the evaluation of ResNet18 on 3×32×32, and `import feddecorr` to `import torch`.

    python -m benchmarks.metric_cost [--repeats 15] [--batch 64] [--imports 11] [--record results/metric_cost.json]

One model in one process with one thread does forward passes, by turns without and with an update of the metric with
labels (ABBA): processor time, the quickest of each counts. `compute` is measured alone, once for an evaluation. Imports
are whole processes by turns, of which the quickest counts, too.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

import torch

from benchmarks.recording import write_record
from feddecorr import CollapseMetric, capture_representations
from feddecorr.models import ResNet18

CLASSES, IMAGES = 10, 10_000


def evaluation(repeats: int, batch: int) -> dict[str, float]:
    """Return the seconds of a batch without and with the metric, and of `compute`."""
    torch.manual_seed(0)
    model = ResNet18().build((3, 32, 32), CLASSES).eval()
    x, y = torch.randn(batch, 3, 32, 32), torch.arange(batch) % CLASSES
    metric = CollapseMetric(512, CLASSES)

    @torch.no_grad()
    def forward(measured: bool) -> float:
        started = time.process_time()
        if measured:
            with capture_representations(model) as seen:
                model(x)
            metric.update(seen.z, y)
        else:
            model(x)
        return time.process_time() - started

    turns = [(forward(False), forward(True), forward(True), forward(False)) for _ in range(repeats + 1)][1:]
    started = time.process_time()
    metric.compute()
    return {
        "without": min(min(first, last) for first, _, _, last in turns),
        "with": min(min(second, third) for _, second, third, _ in turns),
        "compute": time.process_time() - started,
    }


def _of_children() -> float:
    """Return the processor time of processes that have ended."""
    times = os.times()
    return times.children_user + times.children_system


def imports(repeats: int) -> dict[str, float]:
    """Return the seconds of a process that imports PyTorch, and of one that imports the package and its functions."""
    code = {"torch": "import torch", "feddecorr": "import feddecorr; feddecorr.effective_rank"}
    found: dict[str, list[float]] = {name: [] for name in code}
    for turn in range(repeats):
        for name in list(code)[:: -1 if turn % 2 else 1]:
            started = _of_children()
            subprocess.run([sys.executable, "-c", code[name]], check=True)
            found[name].append(_of_children() - started)
    return {name: min(seconds) for name, seconds in found.items()}


def main() -> None:
    """Measure, print, and record if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--imports", type=int, default=11)
    parser.add_argument("--record", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    seconds, started = evaluation(arguments.repeats, arguments.batch), imports(arguments.imports)
    passes = IMAGES / arguments.batch
    found = {
        "batch": arguments.batch,
        "seconds of a batch": {name: seconds[name] for name in ("without", "with")},
        "seconds of compute": seconds["compute"],
        "update to forward pass": seconds["with"] / seconds["without"] - 1,
        "update and compute, of 10 000 images": (
            (passes * seconds["with"] + seconds["compute"]) / (passes * seconds["without"]) - 1
        ),
        "seconds of an import": started,
        "import to that of torch": started["feddecorr"] / started["torch"],
    }
    for name in ("update to forward pass", "update and compute, of 10 000 images"):
        print(f"{name}: {100 * found[name]:.2f} %")
    print(f"import to that of torch: {found['import to that of torch']:.3f}")
    if arguments.record:
        write_record(arguments.record, found)


if __name__ == "__main__":
    main()
