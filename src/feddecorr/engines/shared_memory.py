"""States in shared memory: written by one process, seen by another without a copy."""

from __future__ import annotations

import errno
import math
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from feddecorr.core.states import State
from feddecorr.errors import RunError, explain_refusal

SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - where PyTorch allocates it on Linux
MB = 10**6
FULL = (errno.ENOSPC, errno.ENOMEM)
ALIGNMENT = 64


def shared_bytes(size: int) -> Tensor:
    """Return a flat tensor in shared memory."""
    with enough_shared_memory(size):
        flat = torch.empty(size, dtype=torch.uint8)
        flat.share_memory_()
        return flat


@contextmanager
def enough_shared_memory(needed: int) -> Iterator[None]:
    """If PyTorch cannot allocate shared memory, say how many bytes were needed and what helps."""
    try:
        yield
    except RuntimeError as error:
        refused = re.search(r"shared memory.*\((\d+)\)$", str(error))
        if refused is None:
            raise
        number = int(refused[1])
        why = _shortage(needed) if number in FULL else explain_refusal(OSError(number, os.strerror(number)))
        raise RunError(f"engine=pool needs {_megabytes(needed)} MB more of shared memory: {why}") from None


def _shortage(needed: int) -> str:
    advice = "use engine=serial, or fewer engine.workers"
    if not SHARED_MEMORY.is_dir():
        return f"there is too little shared memory; {advice}"
    total, used, free = shutil.disk_usage(SHARED_MEMORY)
    wanted = 64
    while wanted * MB < used + 4 * needed:  # the same again for each of two workers, and a margin
        wanted *= 2
    enlarge = f"enlarge it (docker run --shm-size={wanted}m; mount -o remount,size={wanted}m {SHARED_MEMORY})"
    return f"{SHARED_MEMORY} has {_megabytes(free)} of {_megabytes(total)} MB left; {enlarge}, or {advice}"


def _megabytes(size: int) -> str:
    return f"{size / MB:.1f}"


@dataclass(frozen=True)
class TensorSpec:
    """One tensor's place in flat memory; the offset counts its own elements."""

    section: str
    name: str
    dtype: torch.dtype
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int


@dataclass(frozen=True)
class StateLayout:
    """The layout of a few named states in flat memory."""

    sections: tuple[str, ...]
    tensors: tuple[TensorSpec, ...]
    size: int

    @classmethod
    def of(cls, sections: Mapping[str, State]) -> StateLayout:
        """Place the tensors one after another, each in its own memory format."""
        tensors = []
        end = 0
        for section, state in sections.items():
            for name, tensor in state.items():
                offset = end // tensor.element_size()
                shape, stride = tuple(tensor.shape), _dense_stride(tensor)
                tensors.append(TensorSpec(section, name, tensor.dtype, shape, stride, offset))
                end += math.ceil(tensor.numel() * tensor.element_size() / ALIGNMENT) * ALIGNMENT
        return cls(tuple(sections), tuple(tensors), end)

    def read(self, flat: Tensor) -> dict[str, State]:
        """Return the states as views of the flat memory."""
        states: dict[str, State] = {section: {} for section in self.sections}
        typed = {dtype: flat.view(dtype) for dtype in {spec.dtype for spec in self.tensors}}
        for spec in self.tensors:
            states[spec.section][spec.name] = typed[spec.dtype].as_strided(spec.shape, spec.stride, spec.offset)
        return states


def _dense_stride(tensor: Tensor) -> tuple[int, ...]:
    """Return the stride of the tensor without gaps, in the same order of dimensions."""
    if tensor.is_contiguous() or (tensor.dim() == 4 and tensor.is_contiguous(memory_format=torch.channels_last)):
        return tensor.stride()
    return torch.empty_like(tensor, device="meta").stride()


def _alike(one: Tensor, other: Tensor) -> bool:
    return one.dtype == other.dtype and one.shape == other.shape and one.stride() == _dense_stride(other)


class SharedStates:
    """Named states in shared memory; sent to another process, they are the same memory."""

    def __init__(self, layout: StateLayout, flat: Tensor | None = None) -> None:
        self.layout = layout
        self.flat = shared_bytes(layout.size) if flat is None else flat
        self.states = layout.read(self.flat)

    def __reduce__(self) -> tuple[type[SharedStates], tuple[StateLayout, Tensor]]:
        """Pickle the layout and the memory; the receiver recreates the views."""
        return SharedStates, (self.layout, self.flat)

    def fits(self, sections: Mapping[str, State]) -> bool:
        """Return whether these tensors have this layout."""
        return all(
            mine.keys() == theirs.keys() and all(_alike(each, theirs[name]) for name, each in mine.items())
            for mine, theirs in ((state, sections[section]) for section, state in self.states.items())
        )

    def fill(self, sections: Mapping[str, State]) -> None:
        """Copy the tensors in, except those that are already there."""
        states = self.states.items()
        pairs = [(mine, sections[section][name]) for section, state in states for name, mine in state.items()]
        for mine, theirs in pairs:
            if mine.data_ptr() != theirs.data_ptr():
                mine.copy_(theirs)
