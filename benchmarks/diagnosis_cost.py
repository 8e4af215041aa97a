"""What a diagnosis adds to the forward passes of MobileNetV2 (d = 1280) over 10 000 images, as a ratio to them.

    python -m benchmarks.diagnosis_cost [--images 10000] [--classes 10] [--repeats 3] [--record FILE.json]

Synthetic images, 3×32×32, in batches of 500, on one thread. Each batch goes through the model alone, and then
through `feddecorr.diagnose`, so that whatever else the machine does hits both alike. Everything counts: statistics
of all samples and of every class, eigen-decompositions, neural collapse, the spectra of all layers' weights.
Seconds are of this process's processor time; of several repeats, the least of each counts.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor

from benchmarks.recording import write_record
from feddecorr import diagnose
from feddecorr.engines.processes import keep_freed_memory
from feddecorr.models import MobileNetV2

BATCH = 500


def measure(images: int, classes: int) -> tuple[float, float]:
    """Return the seconds of forward passes alone, and of the diagnosis with its own."""
    torch.manual_seed(0)
    model = MobileNetV2().build((3, 32, 32), classes).to(memory_format=torch.channels_last).eval()  # type: ignore[call-overload]  # torch types it only with a device
    drawn = torch.randn(BATCH, 3, 32, 32).contiguous(memory_format=torch.channels_last)
    plain = 0.0

    def loader() -> Iterator[tuple[Tensor, Tensor]]:
        nonlocal plain
        for start in range(0, images, BATCH):
            x = drawn[: images - start]
            y = torch.arange(start, start + len(x)) % classes
            started = time.process_time()
            model(x)
            plain += time.process_time() - started
            yield x, y

    started = time.process_time()
    found = diagnose(model, loader())
    whole = time.process_time() - started
    if found.samples != images or found.dimensions != 1280:
        raise RuntimeError(f"measured {found.samples} samples of {found.dimensions} features")
    return plain, whole - plain


def main() -> None:
    """Measure, print, and record if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=10_000)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--record", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    keep_freed_memory()
    turns = [measure(arguments.images, arguments.classes) for _ in range(arguments.repeats)]
    plain, full = (min(seconds) for seconds in zip(*turns, strict=True))
    print(f"forward {plain:.1f} s, with the diagnosis {full:.1f} s, ratio {full / plain:.3f}")
    if arguments.record:
        found = {
            "ratio": full / plain,
            "ratio of each repeat": [with_all / alone for alone, with_all in turns],
            "seconds of forward passes alone": plain,
            "seconds with the diagnosis": full,
        }
        write_record(arguments.record, found)


if __name__ == "__main__":
    main()
