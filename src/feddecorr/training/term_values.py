"""The values of the objective's terms, step by step: of one client, or of several side by side."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from itertools import accumulate, pairwise

import torch
from torch import Tensor
from torch.nn.functional import pad

from feddecorr.errors import RunError


class TermSums:
    """Keeps what every term was in every pass; a step has one pass, unless its method takes several.

    A value has the shape () for one client, and (clients,) for several: the first ones, because clients with fewer
    steps come later.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._passes: list[list[Tensor]] = []
        self._ends: list[int] = []  # how many passes there were after each step

    def add(self, values: Sequence[Tensor]) -> None:
        """Keep the values of one pass, in the order of the names."""
        self._passes.append([value.detach() for value in values])

    def end_step(self) -> None:
        """Let the next passes belong to a new step."""
        self._ends.append(len(self._passes))

    def means(self, client: int, steps: int) -> dict[str, float]:
        """Return the mean of each term over the steps that a client took, or refuse a training that diverged."""
        passes = self._ends[steps - 1]
        means = {name: total / passes for name, total in zip(self._names, self._sums[client], strict=True)}
        for name, mean in means.items():
            if not math.isfinite(mean):
                raise RunError(f"the term '{name}' became {mean} in local training; lower training.lr")
        return means

    def mean(self, steps: Sequence[int], weights: Sequence[float]) -> dict[str, float]:
        """Return the mean of each term over all clients by these weights, each of which took that many steps."""
        passes = torch.tensor([self._ends[count - 1] for count in steps])
        means = self._table.sum(0) / passes @ torch.tensor(weights, dtype=torch.float64) / sum(weights)
        return dict(zip(self._names, means.tolist(), strict=True))

    def epochs(self, client: int, lengths: Sequence[int]) -> dict[str, list[float]]:
        """Return the means of each of a client's local epochs, which have that many steps."""
        mine = self._table[..., client]
        bounds = [0, *(self._ends[count - 1] for count in accumulate(lengths))]
        each = [mine[start:stop].mean(0).tolist() for start, stop in pairwise(bounds)]
        return {name: [means[place] for means in each] for place, name in enumerate(self._names)}

    @cached_property
    def _table(self) -> Tensor:
        """All values in float64, of shape (passes, terms, clients), with zeros after a client's last step."""
        rows = [torch.stack(values) for values in self._passes]
        if rows[-1].shape != rows[0].shape:
            rows = [pad(row, (0, rows[0].shape[1] - row.shape[1])) for row in rows]
        return torch.stack(rows).double().reshape(len(rows), len(self._names), -1).cpu()

    @cached_property
    def _sums(self) -> list[list[float]]:
        sums: list[list[float]] = self._table.sum(0).T.tolist()
        return sums
