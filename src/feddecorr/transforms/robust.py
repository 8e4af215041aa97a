"""Robust aggregation: rules that a few hostile clients cannot move far.

The medians and means replace every client's update by the robust aggregate, so any method sees clients that agree.
BatchNorm statistics and what the method sends as `extra` are treated the same way, each separately. No rule trusts
what clients claim: numbers of examples come from the roster, and the amount of local work is the clients' median.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

import torch
from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt
from torch import Tensor

from feddecorr.core.messages import Broadcast, RoundInfo, Update
from feddecorr.core.states import State
from feddecorr.errors import UserError
from feddecorr.transforms.transform import Transform, require_updates

SECTIONS = ("weights", "buffers", "extra")

OUTLIER_FACTOR = 10.0
"""A client gets a note if its distance from the aggregate exceeds this multiple of the median client's."""

MAX_ITERATIONS = 10_000
"""Bound on the iterations of Weiszfeld's algorithm, for tolerances that rounding never reaches."""


class Median(Transform):
    """The coordinate-wise median (Yin et al., 2018); robust against fewer than half of the clients."""

    def __call__(self, updates: Iterable[Update], broadcast: Broadcast, info: RoundInfo) -> Iterator[Update]:  # noqa: ARG002 - the broadcast is not needed
        """Take the mean of the middle two of an even number."""
        return aggregate_robustly(updates, info, by_coordinate(median))


class TrimmedMean(Transform):
    """The coordinate-wise mean without the largest and smallest values (Yin et al., 2018).

    Robust against as many clients as are trimmed at each end.
    """

    share: float = Field(0.2, ge=0, lt=0.5, description="fraction of the clients that is trimmed at each end")

    def __call__(self, updates: Iterable[Update], broadcast: Broadcast, info: RoundInfo) -> Iterator[Update]:  # noqa: ARG002 - the broadcast is not needed
        """Trim whole clients: with 0.25 of 10 clients, two at each end."""

        def trimmed(values: Tensor) -> Tensor:
            cut = int(self.share * len(values))
            return values.sort(dim=0).values[cut : len(values) - cut].mean(dim=0)

        return aggregate_robustly(updates, info, by_coordinate(trimmed))


class GeometricMedian(Transform):
    """The point with the least sum of distances to all clients (RFA: Pillutla et al., 2022), weighted by examples.

    Robust against clients that hold less than half of the examples, by the roster's numbers.
    """

    tolerance: PositiveFloat = Field(
        1e-9, description="last step of Weiszfeld's algorithm, relative to the median distance of clients"
    )
    smoothing: PositiveFloat = Field(1e-6, description="lower bound on distances in divisions, on the same scale")

    def __call__(self, updates: Iterable[Update], broadcast: Broadcast, info: RoundInfo) -> Iterator[Update]:  # noqa: ARG002 - the broadcast is not needed
        """Compute it separately for weights, BatchNorm statistics and `extra`."""

        def find(updates: Sequence[Update], states: Sequence[State]) -> State:
            sizes = torch.tensor([float(known_examples(update, info)) for update in updates], dtype=torch.float64)
            return self._weiszfeld(states, sizes / sizes.sum())

        return aggregate_robustly(updates, info, find)

    def _weiszfeld(self, states: Sequence[State], shares: Tensor) -> State:
        """Start at the coordinate-wise median, which is near the honest clients however far the others are."""
        stacks = {name: torch.stack([state[name] for state in states]) for name in states[0]}
        start = {name: weighted_median(stack, shares) for name, stack in stacks.items()}
        pairs = [(stack, start[name]) for name, stack in stacks.items() if stack.is_floating_point()]
        coefficients = self._coefficients(*_directions(pairs, len(states)), shares)
        return {name: _combine(stack, start[name], coefficients) for name, stack in stacks.items()}

    def _coefficients(self, lengths: Tensor, cosines: Tensor, shares: Tensor) -> Tensor:
        """Return each client's weight in the geometric median, given distances and directions from the start.

        The point is start + Σᵢ cᵢ·uᵢ, with uᵢ the unit vector towards client i. Neither cᵢ nor any product here grows
        with the length of a client that is far from all others, so nothing cancels or overflows.
        """
        unit = float(weighted_median(lengths, shares))
        if unit == 0:  # half of all examples agree: that is the median
            return torch.zeros_like(shares)
        lengths = lengths / unit
        place = torch.zeros_like(shares)
        for _ in range(MAX_ITERATIONS):
            toward = cosines @ place
            across = (place @ toward - toward.square()).clamp_min(0).sqrt()
            distances = torch.hypot(lengths - toward, across)
            pulls = shares / distances.clamp_min(self.smoothing)
            coefficients = pulls / pulls.sum()
            step = coefficients * lengths - place
            place = place + step
            if step @ cosines @ step <= self.tolerance**2:
                break
        return coefficients


class Krum(Transform):
    """The update closest to its nearest neighbours, or the best few of them (Blanchard et al., 2017).

    The score of an update is the sum of its squared distances to the n − f − 2 nearest others, over all that a client
    sends. With `keep` above 1 it is multi-Krum: the method aggregates the best updates.
    """

    hostile: NonNegativeInt = Field(
        2, description="upper bound on hostile clients in a round (f); needs at least 2f + 3 and f + keep updates"
    )
    keep: PositiveInt = Field(1, description="updates to keep: 1 for Krum, more for multi-Krum")

    def check(self, cohort: int) -> None:
        """Refuse cohorts below the theorem's minimum."""
        if cohort < self._minimum:
            chosen = f"krum with hostile={self.hostile} and keep={self.keep}"
            raise UserError(f"{chosen} needs {self._minimum} clients in a round, and there are {cohort}")

    @property
    def _minimum(self) -> int:
        return max(2 * self.hostile + 3, self.keep + self.hostile)

    def __call__(self, updates: Iterable[Update], broadcast: Broadcast, info: RoundInfo) -> Iterator[Update]:  # noqa: ARG002 - the broadcast is not needed
        """Yield the best updates in their original order."""
        given = require_updates(list(updates), self._minimum, "krum")
        best = set(self.scores(given).argsort(stable=True)[: self.keep].tolist())
        yield from (update for place, update in enumerate(without_claims(given, info)) if place in best)

    def scores(self, updates: Sequence[Update]) -> Tensor:
        """Return the score of each update."""
        squares = torch.zeros(len(updates), len(updates), dtype=torch.float64)
        for tensors in zip(*map(_floats, updates), strict=True):  # one at a time, to bound the memory
            values = torch.stack([tensor.flatten().double() for tensor in tensors])
            squares += torch.stack([(values - value).square().sum(dim=1) for value in values])
        nearest = squares.sort(dim=1).values[:, 1 : len(updates) - self.hostile - 1]  # the first is itself
        return nearest.sum(dim=1)


def _floats(update: Update) -> list[Tensor]:
    sections = (update.weights, update.buffers, update.extra)
    return [tensor for state in sections for tensor in state.values() if tensor.is_floating_point()]


Rule = Callable[[Sequence[Update], Sequence[State]], State]
"""Maps all updates, and one section of each, to the aggregate of that section."""


def aggregate_robustly(updates: Iterable[Update], info: RoundInfo, rule: Rule) -> Iterator[Update]:
    """Give every client the rule's aggregate; clients far from it get a note."""
    given = require_updates(list(updates), 1, "a robust mean")
    sent = {name: [getattr(update, name) for update in given] for name in SECTIONS}
    aggregate = {name: rule(given, states) for name, states in sent.items()}
    notes = [update.note for update in given]
    for name, states in sent.items():
        for place, times in _outliers(states, aggregate[name]).items():
            far = f"its {name} are {times:.2g} times as far from the robust mean as the median client's"
            notes[place] = "; ".join(filter(None, [notes[place], far]))
    for update, note in zip(without_claims(given, info), notes, strict=True):
        yield Update(**{**vars(update), **aggregate, "note": note})


def _outliers(states: Sequence[State], mean: State) -> dict[int, float]:
    """Return the states far from the mean, with their distance over the median distance."""
    distances = [
        math.hypot(*(float(_offsets(state[name][None], value).norm()) for name, value in mean.items()))
        for state in states
    ]
    usual = statistics.median(distances)
    return {place: far / usual for place, far in enumerate(distances) if usual and far > OUTLIER_FACTOR * usual}


def without_claims(updates: Sequence[Update], info: RoundInfo) -> Iterator[Update]:
    """Replace what clients claim: examples by the roster's numbers, the amount of work by the clients' median."""
    amount = statistics.median(update.amount for update in updates)
    for update in updates:
        yield replace(update, examples=known_examples(update, info), amount=amount)


def known_examples(update: Update, info: RoundInfo) -> int:
    """Return the roster's number of examples for the clients of an update."""
    return sum(int(info.sizes[client]) for client in update.clients)


def by_coordinate(function: Callable[[Tensor], Tensor]) -> Rule:
    """Return the rule that applies a function of (clients, …) values to every tensor; counters take their median."""

    def rule(_: Sequence[Update], states: Sequence[State]) -> State:
        stacks = {name: torch.stack([state[name] for state in states]) for name in states[0]}
        return {name: function(v) if v.is_floating_point() else median(v) for name, v in stacks.items()}

    return rule


def median(values: Tensor) -> Tensor:
    """Return the median over the clients: the mean of the middle two of an even number, the lower one of counters."""
    ordered = values.sort(dim=0).values
    low, high = (len(values) - 1) // 2, len(values) // 2
    return ordered[low] if low == high or not values.is_floating_point() else (ordered[low] + ordered[high]) / 2


def weighted_median(values: Tensor, shares: Tensor) -> Tensor:
    """Return, for every coordinate, the least value up to which clients hold half of all shares."""
    ordered, order = values.sort(dim=0)
    below = (shares[order].cumsum(dim=0) < 0.5).sum(dim=0, keepdim=True).clamp_max(len(values) - 1)
    return ordered.gather(0, below).squeeze(0)


def _directions(pairs: Sequence[tuple[Tensor, Tensor]], clients: int) -> tuple[Tensor, Tensor]:
    """Return each client's distance from a start, over all tensors, and the cosines between their offsets.

    Every offset is scaled by its own largest coordinate, so squares neither overflow nor underflow.
    """
    longest, products = torch.zeros(clients, dtype=torch.float64), torch.zeros(clients, clients, dtype=torch.float64)
    for stack, start in pairs:
        longest = torch.maximum(longest, _offsets(stack, start).abs().amax(dim=1))
    units = longest.clamp_min(torch.finfo(torch.float64).tiny)
    for stack, start in pairs:
        offsets = _offsets(stack, start) / units[:, None]
        products += offsets @ offsets.T
    lengths = products.diagonal().sqrt()
    nonzero = lengths.clamp_min(1)  # the largest coordinate is 1, or all are 0
    return longest * lengths, products / nonzero / nonzero[:, None]


def _offsets(stack: Tensor, start: Tensor) -> Tensor:
    return (stack.double() - start.double()).reshape(len(stack), -1)


def _combine(stack: Tensor, start: Tensor, coefficients: Tensor) -> Tensor:
    """Return the start plus the weighted sum of the clients' offsets; counters stay as in the start."""
    if not stack.is_floating_point():
        return start
    return (start.double() + (coefficients @ _offsets(stack, start)).view_as(start)).to(start.dtype)
