"""Gaussian noise that nobody can foresee, or that a seed repeats."""

from __future__ import annotations

import math
import os

import numpy as np
import torch
from torch import Tensor

PARTS = 4
"""Independent Gaussians whose sum is one: floating-point numbers of a single one have holes that tell values apart."""


def gaussian(shape: torch.Size, stream: torch.Generator | None) -> Tensor:
    """Return standard normal numbers: from the system's cryptographic source, or of a stream of a simulation."""
    if stream is not None:
        return torch.randn(shape, generator=stream, dtype=torch.float64)
    count = math.prod(shape)
    total = sum(_unforeseeable(count) for _ in range(PARTS))
    return torch.from_numpy(np.asarray(total / math.sqrt(PARTS)).reshape(shape))


def _unforeseeable(count: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return normal numbers by Box's and Muller's way, of uniform ones of 53 bits each."""
    half = -(-count // 2)
    bits = np.frombuffer(os.urandom(16 * half), np.uint64) >> np.uint64(11)
    first, second = ((bits.astype(np.float64) + 0.5) / 2**53).reshape(2, half)
    radius, angle = np.sqrt(-2 * np.log(first)), 2 * np.pi * second
    return np.concatenate([radius * np.cos(angle), radius * np.sin(angle)])[:count]
