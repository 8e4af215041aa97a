"""How fast devices are: cards by their vendors' data sheets, this processor by what it does now."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch.nn.functional import conv2d

from feddecorr.core.devices import HOST
from feddecorr.core.randomness import threads
from feddecorr.errors import UserError, nearest

GB = 10**9


ProductKind = Literal["matrix", "convolution", "grouped", "bf16"]
"""Products in float32 of matrices, of images and kernels and of those in groups; and all products in bfloat16."""


@dataclass(frozen=True)
class Hardware:
    """What a device does in a second at most, and which shares of that an estimate assumes.

    `flops` are its products by kind (bf16 is missing where it has none), `bandwidth` the bytes that its memory moves,
    `cached` those of what fits into a cache.
    `call` are the seconds that the host takes to start one operation. A card computes while the host starts the next
    ones; a processor does one after the other.
    """

    name: str
    source: str
    flops: Mapping[ProductKind, float]
    bandwidth: float
    cached: float
    call: float
    memory: int | None = None
    flops_share: float = 0.4
    bandwidth_share: float = 0.6
    is_card: bool = True

    def seconds(self, *, flops: int, kind: ProductKind, size: int) -> float:
        """Return how long it computes an operation that moves so many bytes: whichever of the two takes longer."""
        if kind not in self.flops:
            raise UserError(f"{self.name} has no products in {kind}: say training.precision=fp32")
        moved = self.cached if size <= CACHE else self.bandwidth
        return max(flops / (self.flops_share * self.flops[kind]), size / (self.bandwidth_share * moved))

    @property
    def assumes(self) -> str:
        """The sentence that says what an estimate assumes."""
        rates = sorted({number(rate / 1e12) for rate in self.flops.values()}, key=float)
        return (
            f"{self.flops_share:.0%} of {' to '.join(dict.fromkeys([rates[0], rates[-1]]))} TFLOP/s, "
            f"{self.bandwidth_share:.0%} of {self.bandwidth / GB:.0f} GB/s, {1e6 * self.call:.0f} µs to start an "
            f"operation ({self.source})"
        )


def number(value: float) -> str:
    """Return three digits of it."""
    return f"{value:.3g}"


CALL = 10e-6
"""Seconds that a host is assumed to take for an operation on a card: PyTorch, autograd and the driver."""


def _card(name: str, source: str, *, fp32: float, bf16: float | None, bandwidth: float, memory: int) -> Hardware:
    products: dict[ProductKind, float] = dict.fromkeys(("matrix", "convolution", "grouped"), fp32)
    narrow: dict[ProductKind, float] = {} if bf16 is None else {"bf16": bf16}
    return Hardware(name, source, {**products, **narrow}, bandwidth, bandwidth, CALL, memory)


CARDS = {
    "a100": _card(
        "a100",
        "NVIDIA A100 data sheet, SXM with 80 GB; TF32 is not used",
        fp32=19.5e12,
        bf16=312e12,
        bandwidth=2039e9,
        memory=80 * GB,
    ),
    "rtx4090": _card(
        "rtx4090",
        "NVIDIA Ada GPU architecture whitepaper",
        fp32=82.6e12,
        bf16=165.2e12,
        bandwidth=1008e9,
        memory=24 * GB,
    ),
    "v100": _card(
        "v100",
        "NVIDIA V100 data sheet, SXM2 with 32 GB",
        fp32=15.7e12,
        bf16=None,
        bandwidth=900e9,
        memory=32 * GB,
    ),
}
"""Cards by name."""

CACHE = 1 << 22
"""Bytes of an operation that are taken to be in a cache still."""

TURNS = 5
SIDE = 768
CHANNELS = 128
CALLS = 10
"""Calls of the host into PyTorch for each operation of a training: those of autograd, and of Python around them."""


def find_hardware(name: str, count: int = 1) -> Hardware:
    """Return a card by its name, or this processor with that many threads."""
    if name == HOST:
        return processor(count)
    if name not in CARDS:
        raise UserError(f"--device {name}: {nearest(name, [*CARDS, HOST])}")
    return CARDS[name]


def processor(count: int = 1) -> Hardware:
    """Measure this processor with that many threads, in a fraction of a second of its own time."""
    matrix, numbers, few = torch.ones(SIDE, SIDE), torch.ones(1 << 22), torch.ones(8)
    narrow, copied, near = matrix.bfloat16(), torch.empty_like(numbers), numbers[: CACHE // 16]
    images, kernel = (
        torch.ones(shape).to(memory_format=torch.channels_last)
        for shape in ((16, CHANNELS, 16, 16), (CHANNELS, CHANNELS, 3, 3))
    )
    alone = kernel[:, :1].contiguous(memory_format=torch.channels_last)
    products = 2 * SIDE**3
    pixels = 2 * images.numel() * 9
    with threads(count), torch.no_grad():
        return Hardware(
            name=HOST,
            source="measured on this machine just now",
            flops={
                "matrix": products / _seconds(lambda: matrix @ matrix),
                "bf16": products / _seconds(lambda: narrow @ narrow),
                "convolution": CHANNELS * pixels / _seconds(lambda: conv2d(images, kernel, padding=1)),
                "grouped": pixels / _seconds(lambda: conv2d(images, alone, padding=1, groups=CHANNELS)),
            },
            bandwidth=2 * numbers.nbytes / _seconds(lambda: copied.copy_(numbers)),
            cached=2 * near.nbytes / _seconds(lambda: copied[: len(near)].copy_(near)),
            call=CALLS * _seconds(lambda: [few.add_(1) for _ in range(100)]) / 100,
            flops_share=0.55,
            bandwidth_share=1.0,
            is_card=False,
        )


def _seconds(work: Callable[[], object]) -> float:
    """Return the least time of a few that the processor spent on it: what else it does meanwhile is not counted."""
    work()
    least = float("inf")
    for _ in range(TURNS):
        began = time.thread_time()
        work()
        least = min(least, time.thread_time() - began)
    return least
