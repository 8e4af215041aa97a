"""The objectives of several clients."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import torch
from torch import Tensor

from feddecorr.objective.terms import Pass, takes_several
from feddecorr.training.client_round import ClientRound

Cohort = tuple[Sequence[int], Pass]
"""Clients whose batches have one size, and their pass, of shapes (clients, n, …)."""


class Objectives:
    """Every client's own objective; all have terms of the same names.

    A term that is the same for all and can be asked for several clients is asked once for each cohort; any other is
    asked client by client. So no term ever sees what pads a batch.
    """

    def __init__(self, parts: Sequence[ClientRound]) -> None:
        self._parts, first = parts, parts[0].terms
        self.names = list(first)
        self._common = [
            name for name in first if takes_several(first[name]) and all(p.terms[name] is first[name] for p in parts)
        ]
        self.common = len(self._common) == len(first)
        """Whether every term is asked once for all: then nobody looks at images or parameters."""

    def __call__(self, cohorts: Sequence[Cohort], parameters: Mapping[str, Tensor]) -> list[Tensor]:
        """Return the values of each term, of shape (clients,), in the order of the names."""
        unstacked = _Unstacked(parameters)
        found = [self._values(*cohort, unstacked) for cohort in cohorts]
        if len(found) == 1:
            return found[0]
        order = torch.tensor([client for clients, _ in cohorts for client in clients]).argsort().to(found[0][0].device)
        return [torch.cat(values).index_select(0, order) for values in zip(*found, strict=True)]

    def _values(self, clients: Sequence[int], forward: Pass, parameters: _Unstacked) -> list[Tensor]:
        terms, own = self._parts[0].terms, [name for name in self.names if name not in self._common]
        values = {name: terms[name](forward) for name in self._common}
        found: dict[str, list[Tensor]] = {name: [] for name in own}
        for row, client in enumerate(clients if own else ()):
            part, mine = self._parts[client], _row(forward, row, _Own(parameters, client))
            with part.turn():
                for name in own:
                    found[name].append(part.terms[name](mine))
        values |= {name: torch.stack(each) for name, each in found.items()}
        return [values[name] for name in self.names]


def _row(forward: Pass, row: int, parameters: Mapping[str, Tensor]) -> Pass:
    """Return the pass of one client, as if it were alone."""
    x, y, z, logits = (whole[row] for whole in (forward.x, forward.y, forward.z, forward.logits))
    places = None if forward.places is None else forward.places[row]
    return Pass(x, y, z, logits, parameters, [level[row] for level in forward.levels], places)


class _Unstacked:
    """Stacked parameters, unbound when the first is asked for: most terms look at none."""

    def __init__(self, stacked: Mapping[str, Tensor]) -> None:
        self.stacked = stacked
        self._unbound: dict[str, tuple[Tensor, ...]] = {}

    def __getitem__(self, name: str) -> tuple[Tensor, ...]:
        if name not in self._unbound:
            self._unbound[name] = self.stacked[name].unbind()
        return self._unbound[name]


class _Own(Mapping[str, Tensor]):
    """The parameters of one client."""

    def __init__(self, unstacked: _Unstacked, client: int) -> None:
        self._unstacked, self._client = unstacked, client

    def __getitem__(self, name: str) -> Tensor:
        return self._unstacked[name][self._client]

    def __iter__(self) -> Iterator[str]:
        return iter(self._unstacked.stacked)

    def __len__(self) -> int:
        return len(self._unstacked.stacked)
