"""What a regularizer adds to a training step of MobileNetV2 (batch 64, 3×32×32), as a ratio to plain training.

    python -m benchmarks.loss_cost [LOSS …] [--repeats 15] [--batch 64] [--record results/loss_cost.json]

One model in one process with one thread takes single steps, by turns without and with a term (ABBA), so that
whatever else the machine does hits both alike; it is processor time that is measured, and the quickest step of each
counts. The classifier is looked for anew in every step. `singular, decomposed` computes L_singular as the paper
describes it, by decomposing the d×d covariance matrix; `singular` is ours, exact without any decomposition.
The second table is of the losses alone, forward and backward, with the n×n product and with the d×d one. The third
sets the term of FedDecorr against that of FedProx, each alone with its gradient, in alternated pairs; medians count.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from benchmarks.recording import write_record
from feddecorr.collapse.representation import capture_representations
from feddecorr.engines.processes import keep_freed_memory
from feddecorr.loss import contrastive, decorrelation
from feddecorr.models import MobileNetV2
from feddecorr.objective.optimizers import FusedSGD
from feddecorr.objective.terms import Pass, proximal

Loss = Callable[[Tensor], Tensor]
CLASSES, WEIGHT = 10, 0.1


def singular_decomposed(z: Tensor) -> Tensor:
    """Return L_singular by the covariance's singular value decomposition."""
    values: Tensor = torch.linalg.svdvals(torch.cov(z.T, correction=0))
    return values.var(correction=0)


def feddecorr_wide(z: Tensor) -> Tensor:
    """Return FedDecorr (released) by the d×d product, as it is usually written."""
    n, d = z.shape
    scores = (z - z.mean(0)) / (z.var(0) + decorrelation.EPSILON).sqrt()
    product = scores.T @ scores
    return (product.square().sum() - product.diagonal().square().sum()) / (d * (d - 1) * n)


CONTESTANTS: dict[str, Loss] = {
    "feddecorr": decorrelation.feddecorr,
    "singular": decorrelation.singular,
    "singular, decomposed": singular_decomposed,
}
ALONE: dict[str, Loss] = {
    "feddecorr": decorrelation.feddecorr,
    "feddecorr, d×d": feddecorr_wide,
    "logdet": decorrelation.logdet,
    "decov": decorrelation.decov,
    "structured_decov": decorrelation.structured_decov,
    "singular": decorrelation.singular,
    "vicreg_covariance": decorrelation.vicreg_covariance,
    "vicreg_variance": decorrelation.vicreg_variance,
    "spectral_entropy": decorrelation.spectral_entropy,
    "uniformity": contrastive.uniformity,
}


def steps(contestants: Sequence[str], repeats: int, batch: int) -> dict[str, tuple[float, float]]:
    """Return the seconds of the quickest training step without and with each contestant."""
    torch.manual_seed(0)
    model = MobileNetV2().build((3, 32, 32), CLASSES).to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # torch types it only with a device
    x = torch.randn(batch, 3, 32, 32).contiguous(memory_format=torch.channels_last)
    y = torch.randint(CLASSES, (batch,))
    parameters = list(model.parameters())
    optimizer = FusedSGD(parameters, lr=1e-3, momentum=0.9, weight_decay=1e-5)

    def step(loss: Loss | None) -> float:
        started = time.process_time()
        if loss is None:
            total = cross_entropy(model(x), y)
        else:
            with capture_representations(model) as seen:
                total = cross_entropy(model(x), y)
            total = total + WEIGHT * loss(seen.z)
        optimizer.step(torch.autograd.grad(total, parameters))
        return time.process_time() - started

    quickest = {}
    for name in contestants:
        loss = CONTESTANTS[name]
        turns = [(step(None), step(loss), step(loss), step(None)) for _ in range(repeats + 1)][1:]  # one to warm up
        plain = min(min(first, last) for first, _, _, last in turns)
        quickest[name] = plain, min(min(second, third) for _, second, third, _ in turns)
    return quickest


def losses(repeats: int, batch: int) -> dict[str, list[float]]:
    """Return the seconds of each loss alone, forward and backward, at d = 1280."""
    z = torch.randn(batch, 1280, requires_grad=True)
    seconds: dict[str, list[float]] = {name: [] for name in ALONE}
    for _ in range(repeats):
        for name, loss in ALONE.items():
            started = time.process_time()
            torch.autograd.grad(loss(z), z)
            seconds[name].append(time.process_time() - started)
    return seconds


def terms(pairs: int, batch: int) -> dict[str, float]:
    """Return the median milliseconds of FedDecorr's and of FedProx's term on MobileNetV2, each with its gradient."""
    torch.manual_seed(0)
    model = MobileNetV2().build((3, 32, 32), CLASSES)
    parameters = dict(model.named_parameters())
    z = torch.randn(batch, 1280, requires_grad=True)
    proximal_term = proximal(1e-3, [parameter.detach() + 0.01 for parameter in parameters.values()])
    forward = Pass(z, z, z, z, parameters)
    contestants: dict[str, Callable[[], object]] = {
        "feddecorr": lambda: torch.autograd.grad(decorrelation.feddecorr(z), z),
        "fedprox": lambda: torch.autograd.grad(proximal_term(forward), list(parameters.values())),
    }
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for turn in range(pairs + 1):
        for name in list(contestants)[:: -1 if turn % 2 else 1]:
            started = time.process_time()
            contestants[name]()
            seconds[name].append(time.process_time() - started)
    return {name: 1000 * median(each[1:]) for name, each in seconds.items()}  # one to warm up


def main() -> None:
    """Measure, print, and record if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("losses", nargs="*", default=list(CONTESTANTS), metavar="LOSS", help=", ".join(CONTESTANTS))
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--record", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    keep_freed_memory()
    step = steps(arguments.losses, arguments.repeats, arguments.batch)
    alone = losses(20 * arguments.repeats, arguments.batch)
    for name, (plain, more) in step.items():
        print(f"{name:22} {1000 * more:8.1f} ms a step, {1000 * plain:8.1f} without: {more / plain:.4f}")
    quickest = {name: min(seconds) for name, seconds in alone.items()}
    for name, seconds in quickest.items():
        print(f"{name:22} {1000 * seconds:8.3f} ms alone, forward and backward")
    pairs = 10 * arguments.repeats
    term = terms(pairs, arguments.batch)
    for name, milliseconds in term.items():
        print(f"{name:22} {milliseconds:8.3f} ms of its term, median of {pairs} alternated pairs")
    if arguments.record:
        found = {
            "milliseconds of a term": term,
            "pairs": pairs,
            "ratio to plain": {name: more / plain for name, (plain, more) in step.items()},
            "milliseconds of a step, without and with": {
                name: [1000 * plain, 1000 * more] for name, (plain, more) in step.items()
            },
            "milliseconds of the loss alone": {name: 1000 * seconds for name, seconds in quickest.items()},
        }
        write_record(arguments.record, found)


if __name__ == "__main__":
    main()
