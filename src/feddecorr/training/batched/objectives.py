"""The objectives of several clients over one pass of them all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import torch
from torch import Tensor

from feddecorr.objective.terms import Pass, Term, takes_several
from feddecorr.training.client_round import ClientRound


class Objectives:
    """Every client's own objective; all have terms of the same names.

    A term that is the same for all and can be asked for several clients is asked once for all whose batches have the
    same size; any other is asked client by client. So no term ever sees what fills a smaller batch up.
    """

    def __init__(self, parts: Sequence[ClientRound]) -> None:
        self._parts = parts
        first = parts[0].terms
        self.names = list(first)
        self._common = {
            name: term
            for name, term in first.items()
            if takes_several(term) and all(each.terms[name] is term for each in parts)
        }
        self.common = len(self._common) == len(first)
        """Whether every term is asked once for all: then nobody looks at images or parameters."""

    def __call__(self, forward: Pass, sizes: Sequence[int]) -> list[Tensor]:
        """Return the values of each term, of shape (clients,), in the order of the names."""
        alike = _alike(forward, sizes)
        values = {name: alike(term) for name, term in self._common.items()}
        if not self.common:
            values |= self._one_by_one(forward, sizes)
        return [values[name] for name in self.names]

    def _one_by_one(self, forward: Pass, sizes: Sequence[int]) -> dict[str, Tensor]:
        found: dict[str, list[Tensor]] = {name: [] for name in self.names if name not in self._common}
        for mine, part in zip(_each(forward, sizes), self._parts, strict=False):  # whoever is done has left
            with part.turn():
                for name, values in found.items():
                    values.append(part.terms[name](mine))
        return {name: torch.stack(values) for name, values in found.items()}


def _alike(forward: Pass, sizes: Sequence[int]) -> Callable[[Term], Tensor]:
    """Return what asks a term, once for each size of batch."""
    different = sorted(set(sizes), reverse=True)
    if len(different) == 1:
        return lambda term: term(forward)
    rows = [torch.tensor([place for place, mine in enumerate(sizes) if mine == size]) for size in different]
    passes = [_part(forward, chosen, size) for chosen, size in zip(rows, different, strict=True)]
    back = torch.cat(rows).argsort().to(forward.logits.device)
    return lambda term: torch.cat([term(part) for part in passes]).index_select(0, back)


def _part(forward: Pass, chosen: Tensor, size: int) -> Pass:
    chosen = chosen.to(forward.logits.device)
    y, z, logits = (whole.index_select(0, chosen)[:, :size] for whole in (forward.y, forward.z, forward.logits))
    return Pass(forward.x, y, z, logits, forward.parameters)


def _each(forward: Pass, sizes: Sequence[int]) -> Iterator[Pass]:
    """Yield the pass of every client, as if it were alone."""
    parameters = _Unstacked(forward.parameters)
    columns = (whole.unbind() for whole in (forward.x, forward.y, forward.z, forward.logits))
    for place, (size, *whole) in enumerate(zip(sizes, *columns, strict=True)):
        x, y, z, logits = (each[:size] for each in whole)
        places = None if forward.places is None else forward.places[place, :size]
        yield Pass(x, y, z, logits, _Own(parameters, place), places=places)


class _Unstacked:
    """Stacked parameters, taken apart when the first is asked for: most terms look at none."""

    def __init__(self, stacked: Mapping[str, Tensor]) -> None:
        self.stacked = stacked
        self._apart: dict[str, tuple[Tensor, ...]] = {}

    def __getitem__(self, name: str) -> tuple[Tensor, ...]:
        if name not in self._apart:
            self._apart[name] = self.stacked[name].unbind()
        return self._apart[name]


class _Own(Mapping[str, Tensor]):
    """The parameters of one client."""

    def __init__(self, unstacked: _Unstacked, place: int) -> None:
        self._unstacked, self._place = unstacked, place

    def __getitem__(self, name: str) -> Tensor:
        return self._unstacked[name][self._place]

    def __iter__(self) -> Iterator[str]:
        return iter(self._unstacked.stacked)

    def __len__(self) -> int:
        return len(self._unstacked.stacked)
