"""Updates that lie close together are believed, others are not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import torch
from pydantic import Field, NonNegativeInt, PositiveInt
from torch import Tensor

from feddecorr.core.messages import Broadcast, RoundInfo, Update
from feddecorr.errors import UserError
from feddecorr.transforms.robust import unclaimed
from feddecorr.transforms.transform import Transform, checked_number


class Krum(Transform):
    """The update that is nearest to its nearest neighbours, or the best few of them (Blanchard et al., 2017).

    The score of an update is the sum of its squared distances to the n − f − 2 nearest others, over all that a client
    sends. With `keep` above 1 it is multi-Krum: those updates go on to the method, which takes their mean. Numbers of
    examples are those that the server knew before, the amount of local work is the median of all.
    """

    hostile: NonNegativeInt = Field(
        2, description="hostile clients in a round at most (f); 2f + 3 updates are needed, and f + keep"
    )
    keep: PositiveInt = Field(1, description="updates that go on: 1 for Krum, more for multi-Krum")

    def check(self, cohort: int) -> None:
        """Refuse rounds of fewer clients than the theorem needs."""
        if cohort < self._fewest:
            asked = f"krum with hostile={self.hostile} and keep={self.keep}"
            raise UserError(f"{asked} needs {self._fewest} clients in a round, and there are {cohort}")

    @property
    def _fewest(self) -> int:
        return max(2 * self.hostile + 3, self.keep + self.hostile)

    def __call__(self, updates: Iterable[Update], broadcast: Broadcast, info: RoundInfo) -> Iterator[Update]:  # noqa: ARG002 - what was sent is not needed
        """Yield the best ones, in the order in which they came."""
        taken = checked_number(list(updates), self._fewest, "krum")
        best = set(self.scores(taken).argsort(stable=True)[: self.keep].tolist())
        yield from (update for place, update in enumerate(unclaimed(taken, info)) if place in best)

    def scores(self, updates: Sequence[Update]) -> Tensor:
        """Return the score of each update."""
        squares = torch.zeros(len(updates), len(updates), dtype=torch.float64)
        for tensors in zip(*map(_floats, updates), strict=True):  # one after the other: all at once may fill the memory
            values = torch.stack([tensor.flatten().double() for tensor in tensors])
            squares += torch.stack([(values - value).square().sum(dim=1) for value in values])
        nearest = squares.sort(dim=1).values[:, 1 : len(updates) - self.hostile - 1]  # the first is itself
        return nearest.sum(dim=1)


def _floats(update: Update) -> list[Tensor]:
    sections = (update.weights, update.buffers, update.extra)
    return [tensor for state in sections for tensor in state.values() if tensor.is_floating_point()]
