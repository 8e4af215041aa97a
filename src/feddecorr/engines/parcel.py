"""States in one flat piece of shared memory: written by one process, seen by another without a copy."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from feddecorr.messages import State

ALIGNMENT = 64


@dataclass(frozen=True)
class Place:
    """Where one tensor lies in the flat memory."""

    section: str
    name: str
    dtype: torch.dtype
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    start: int
    end: int

    def view(self, flat: Tensor) -> Tensor:
        """Return the tensor that lies there."""
        return flat[self.start : self.end].view(self.dtype).as_strided(self.shape, self.stride)


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
                start = math.ceil(end / ALIGNMENT) * ALIGNMENT
                end = start + tensor.numel() * tensor.element_size()
                stride = torch.empty_like(tensor, device="meta").stride()  # dense, in the same order
                places.append(Place(section, name, tensor.dtype, tuple(tensor.shape), stride, start, end))
        return cls(tuple(sections), tuple(places), end)

    def write(self, flat: Tensor, sections: Mapping[str, State]) -> None:
        """Copy the tensors to their places."""
        if self.places:
            targets = [place.view(flat) for place in self.places]
            torch._foreach_copy_(targets, [sections[place.section][place.name] for place in self.places])

    def read(self, flat: Tensor) -> dict[str, State]:
        """Return the states as views of the flat memory."""
        states: dict[str, State] = {section: {} for section in self.sections}
        for place in self.places:
            states[place.section][place.name] = place.view(flat)
        return states


def shared_memory(size: int) -> Tensor:
    """Return fresh flat memory that processes can share; it is gone with the last that holds it."""
    flat = torch.empty(size, dtype=torch.uint8)
    flat.share_memory_()
    return flat
