"""States in one flat piece of shared memory: written by one process, seen by another without a copy."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from feddecorr.core.states import State
from feddecorr.engines.shared_memory import shared_bytes

ALIGNMENT = 64


@dataclass(frozen=True)
class Place:
    """Where one tensor lies in the flat memory, counted in its own elements."""

    section: str
    name: str
    dtype: torch.dtype
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int


@dataclass(frozen=True)
class Layout:
    """Where all tensors of a few named states lie."""

    sections: tuple[str, ...]
    places: tuple[Place, ...]
    size: int

    @classmethod
    def of(cls, sections: Mapping[str, State]) -> Layout:
        """Lay the tensors out one after another, each in its own memory format."""
        places = []
        end = 0
        for section, state in sections.items():
            for name, tensor in state.items():
                offset = end // tensor.element_size()
                places.append(Place(section, name, tensor.dtype, tuple(tensor.shape), _dense_stride(tensor), offset))
                end += math.ceil(tensor.numel() * tensor.element_size() / ALIGNMENT) * ALIGNMENT
        return cls(tuple(sections), tuple(places), end)

    def read(self, flat: Tensor) -> dict[str, State]:
        """Return the states as views of the flat memory."""
        states: dict[str, State] = {section: {} for section in self.sections}
        typed = {dtype: flat.view(dtype) for dtype in {place.dtype for place in self.places}}
        for place in self.places:
            view = typed[place.dtype].as_strided(place.shape, place.stride, place.offset)
            states[place.section][place.name] = view
        return states


def _dense_stride(tensor: Tensor) -> tuple[int, ...]:
    """Return the stride of the tensor without gaps, in the same order."""
    if tensor.is_contiguous() or (tensor.dim() == 4 and tensor.is_contiguous(memory_format=torch.channels_last)):
        return tensor.stride()
    return torch.empty_like(tensor, device="meta").stride()


def _alike(one: Tensor, other: Tensor) -> bool:
    return one.dtype == other.dtype and one.shape == other.shape and one.stride() == _dense_stride(other)


class Parcel:
    """States in their places in flat shared memory; sent to another process, it is the same memory."""

    def __init__(self, layout: Layout, flat: Tensor | None = None) -> None:
        self.layout = layout
        self.flat = shared_bytes(layout.size) if flat is None else flat
        self.states = layout.read(self.flat)

    def __reduce__(self) -> tuple[type[Parcel], tuple[Layout, Tensor]]:
        """Send no views: they are made anew."""
        return Parcel, (self.layout, self.flat)

    def fits(self, sections: Mapping[str, State]) -> bool:
        """Tell whether each of these tensors has its place here."""
        return all(
            mine.keys() == theirs.keys() and all(_alike(each, theirs[name]) for name, each in mine.items())
            for mine, theirs in ((state, sections[section]) for section, state in self.states.items())
        )

    def fill(self, sections: Mapping[str, State]) -> None:
        """Copy the tensors to their places, but for those that lie there already."""
        states = self.states.items()
        pairs = [(mine, sections[section][name]) for section, state in states for name, mine in state.items()]
        for mine, theirs in pairs:
            if mine.data_ptr() != theirs.data_ptr():
                mine.copy_(theirs)
