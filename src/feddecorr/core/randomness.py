"""What decides the last bits: generators, each seeded by name, and the number of threads."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor

from feddecorr.core import devices


def named_seed(seed: int, purpose: str, *places: int) -> int:
    """Return a 63-bit seed that depends on every part of the name and on nothing else."""
    name = "/".join([str(seed), purpose, *map(str, places)])
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big") >> 1


def generator(seed: int, purpose: str, *places: int) -> torch.Generator:
    """Return a PyTorch generator of that name."""
    return torch.Generator().manual_seed(named_seed(seed, purpose, *places))


def frozen_stream(seed: int, purpose: str, *places: int) -> np.random.RandomState:
    """Return a NumPy stream of that name, of the kind that NumPy promises never to change (NEP 19)."""
    words = np.frombuffer(named_seed(seed, purpose, *places).to_bytes(8, "little"), dtype="<u4")
    return np.random.RandomState(words)  # the new Generator may change its streams between versions


class Stream:
    """PyTorch's global generator for one of several that take turns: each continues where it stopped.

    To be used within `devices.forked_randomness()`, which puts the generator back in the end. That of an accelerator
    is seeded in the first turn and is nobody's own.
    """

    def __init__(self, seed: int, purpose: str, *places: int) -> None:
        self._seed = named_seed(seed, purpose, *places)
        self._state: torch.Tensor | None = None

    def __enter__(self) -> None:
        if self._state is not None:
            torch.default_generator.set_state(self._state)
            return
        torch.default_generator.manual_seed(self._seed)  # torch.manual_seed takes 0.7 ms to look for devices
        devices.seed_all(self._seed)

    def __exit__(self, *_: object) -> None:
        self._state = torch.default_generator.get_state()


def first_of_permutation(length: int, count: int, *, seed: int) -> list[int]:
    """Return the first numbers of `torch.randperm(length)` with a generator of that seed, without the others.

    It is the same shuffle (Fisher and Yates, with the numbers of the Mersenne twister), but only what was moved is
    kept: 50 of a million take 0.1 ms, where `torch.randperm` takes 165 ms (50 of a hundred thousand: 31 ms).
    """
    numbers = np.random.RandomState(seed % 2**32).randint(2**32, size=count, dtype=np.uint32).tolist()
    moved: dict[int, int] = {}
    drawn = []
    for place, number in enumerate(numbers):
        other = place + number % (length - place)
        drawn.append(moved.get(other, other))
        moved[other] = moved.pop(place, place)
    return drawn


@contextmanager
def seeded(seed: int, purpose: str, *places: int) -> Iterator[None]:
    """Seed PyTorch's global generator inside of the block, and restore it afterwards.

    For code that can't be given a generator: a module's initialisation, dropout.
    """
    with devices.forked_randomness(), Stream(seed, purpose, *places):
        yield


PARTS = 4
"""Independent Gaussians whose sum is one: floating-point numbers of a single one have gaps that reveal values."""


def gaussian(shape: torch.Size, stream: torch.Generator | None) -> Tensor:
    """Return standard normal numbers: from the system's cryptographic source, or of a stream of a simulation."""
    if stream is not None:
        return torch.randn(shape, generator=stream, dtype=torch.float64)
    count = math.prod(shape)
    total = sum(_unpredictable(count) for _ in range(PARTS))
    return torch.from_numpy(np.asarray(total / math.sqrt(PARTS)).reshape(shape))


def _unpredictable(count: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return normal numbers by Box's and Muller's way, of uniform ones of 53 bits each."""
    half = -(-count // 2)
    bits = np.frombuffer(os.urandom(16 * half), np.uint64) >> np.uint64(11)
    first, second = ((bits.astype(np.float64) + 0.5) / 2**53).reshape(2, half)
    radius, angle = np.sqrt(-2 * np.log(first)), 2 * np.pi * second
    return np.concatenate([radius * np.cos(angle), radius * np.sin(angle)])[:count]


GAIN = 0.68
"""To this power of their number, threads make a client faster: 1.6 times with two (`benchmarks/threads.py`)."""


def threads_for(cohort: int, cores: int) -> int:
    """Return the threads of one client with which a round of that many clients, equal in size, is done first.

    By counting: a division into more workers than there are clients leaves cores idle, and so does the last of
    several turns in which fewer clients are left than workers.
    """

    def speed(count: int) -> float:
        turns = math.ceil(cohort / (cores // count))
        return float(cohort / turns * count**GAIN)

    return max(range(1, cores + 1), key=speed)


def parallel_jobs(count: int) -> int:
    """Return how many pieces of work, each of that many threads, keep all cores busy."""
    return max(1, (os.cpu_count() or 1) // count)


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Compute with that many threads inside of the block: sums depend on it in their last bits."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
