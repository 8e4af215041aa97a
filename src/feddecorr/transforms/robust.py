"""Means that a few hostile clients cannot move far, in place of what each client sent.

Every client's update becomes the robust mean of all, so that to any method it looks as if they had agreed: its own
mean of equals is their value. So are what BatchNorm counts and what the method sends beside the weights; the amount of
local work is the median of all. Numbers of examples are those that the server knew before, whatever clients claim.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

import torch
from pydantic import Field, PositiveFloat
from torch import Tensor

from feddecorr.core.messages import Broadcast, RoundInfo, Update
from feddecorr.core.states import State
from feddecorr.transforms.transform import Transform, checked_number

SECTIONS = ("weights", "buffers", "extra")

FAR = 10.0
"""A client is named whose update is so many times as far from the robust mean as the median client's."""

MOST = 10_000
"""Steps of Weiszfeld's algorithm, each of which comes nearer: no more, though the tolerance be zero."""


class Median(Transform):
    """The median of every coordinate (Yin et al., 2018); holds against fewer than half of the clients."""

    def __call__(self, updates: Iterable[Update], broadcast: Broadcast, info: RoundInfo) -> Iterator[Update]:  # noqa: ARG002 - what was sent is not needed
        """Take the mean of the middle two of an even number."""
        return agree(updates, info, by_coordinate(median))


class TrimmedMean(Transform):
    """The mean of every coordinate without its largest and smallest values (Yin et al., 2018).

    Holds against as many clients as are cut off at each end.
    """

    share: float = Field(0.2, ge=0, lt=0.5, description="part of the clients that is cut off at each end")

    def __call__(self, updates: Iterable[Update], broadcast: Broadcast, info: RoundInfo) -> Iterator[Update]:  # noqa: ARG002 - what was sent is not needed
        """Cut off whole clients: of 10 clients with 0.25, two at each end."""

        def trimmed(values: Tensor) -> Tensor:
            cut = int(self.share * len(values))
            return values.sort(dim=0).values[cut : len(values) - cut].mean(dim=0)

        return agree(updates, info, by_coordinate(trimmed))


class GeometricMedian(Transform):
    """The point with the least sum of distances to all clients (RFA: Pillutla et al., 2022), by numbers of examples.

    Holds against clients with less than half of the examples, as the server knew their numbers before.
    """

    tolerance: PositiveFloat = Field(
        1e-9, description="last step of Weiszfeld's algorithm, measured by the median distance of clients"
    )
    smoothing: PositiveFloat = Field(1e-6, description="least distance that is divided by, measured in the same way")

    def __call__(self, updates: Iterable[Update], broadcast: Broadcast, info: RoundInfo) -> Iterator[Update]:  # noqa: ARG002 - what was sent is not needed
        """Find it for the weights, for BatchNorm's statistics and for what is beside them, each by itself."""

        def find(taken: Sequence[Update], states: Sequence[State]) -> State:
            sizes = torch.tensor([float(known_examples(update, info)) for update in taken], dtype=torch.float64)
            return self._weiszfeld(states, sizes / sizes.sum())

        return agree(updates, info, find)

    def _weiszfeld(self, states: Sequence[State], shares: Tensor) -> State:
        """Begin at the median of every coordinate, from where the honest clients are near and the others may be far."""
        stacks = {name: torch.stack([state[name] for state in states]) for name in states[0]}
        start = {name: weighted_median(stack, shares) for name, stack in stacks.items()}
        pairs = [(stack, start[name]) for name, stack in stacks.items() if stack.is_floating_point()]
        parts = self._parts(*_directions(pairs, len(states)), shares)
        return {name: _mix(stack, start[name], parts) for name, stack in stacks.items()}

    def _parts(self, lengths: Tensor, cosines: Tensor, shares: Tensor) -> Tensor:
        """Return each client's part in the geometric median, given how far from the start it is and in which direction.

        The point is start + Σᵢ cᵢ·uᵢ, with uᵢ the unit vector towards client i. Neither cᵢ nor any product here grows
        with the length of a client that is far from all others, so nothing cancels or overflows.
        """
        unit = float(weighted_median(lengths, shares))
        if unit == 0:  # half of all examples agree: there it is
            return torch.zeros_like(shares)
        lengths = lengths / unit
        place = torch.zeros_like(shares)
        for _ in range(MOST):
            toward = cosines @ place
            across = (place @ toward - toward.square()).clamp_min(0).sqrt()
            distances = torch.hypot(lengths - toward, across)
            pulls = shares / distances.clamp_min(self.smoothing)
            parts = pulls / pulls.sum()
            step = parts * lengths - place
            place = place + step
            if step @ cosines @ step <= self.tolerance**2:
                break
        return parts


Rule = Callable[[Sequence[Update], Sequence[State]], State]
"""From all updates, and one section of each, to the state of that section in place of theirs."""


def agree(updates: Iterable[Update], info: RoundInfo, rule: Rule) -> Iterator[Update]:
    """Give everybody the same: what the rule makes of all of them; who is far from it is named in its note."""
    taken = checked_number(list(updates), 1, "a robust mean")
    sent = {name: [getattr(update, name) for update in taken] for name in SECTIONS}
    agreed = {name: rule(taken, states) for name, states in sent.items()}
    notes = [update.note for update in taken]
    for name, states in sent.items():
        for place, times in _far(states, agreed[name]).items():
            far = f"its {name} are {times:.2g} times as far from the robust mean as the median client's"
            notes[place] = "; ".join(filter(None, [notes[place], far]))
    for update, note in zip(unclaimed(taken, info), notes, strict=True):
        yield Update(**{**vars(update), **agreed, "note": note})


def _far(states: Sequence[State], mean: State) -> dict[int, float]:
    """Return who is far from the mean, and how many times as far as the median of all."""
    distances = [
        math.hypot(*(float(_ways(state[name][None], value).norm()) for name, value in mean.items())) for state in states
    ]
    usual = statistics.median(distances)
    return {place: far / usual for place, far in enumerate(distances) if usual and far > FAR * usual}


def unclaimed(updates: Sequence[Update], info: RoundInfo) -> Iterator[Update]:
    """Take nobody's word: examples are as many as the server knew before, the amount of work is the median of all."""
    amount = statistics.median(update.amount for update in updates)
    for update in updates:
        yield replace(update, examples=known_examples(update, info), amount=amount)


def known_examples(update: Update, info: RoundInfo) -> int:
    """Return how many examples the clients of an update have, as far as the server knew before."""
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
    """Return each client's distance from a start, over all tensors, and the cosines between the ways to them.

    Every way is measured by its own longest coordinate: squares of none overflow or vanish.
    """
    longest, products = torch.zeros(clients, dtype=torch.float64), torch.zeros(clients, clients, dtype=torch.float64)
    for stack, start in pairs:
        longest = torch.maximum(longest, _ways(stack, start).abs().amax(dim=1))
    units = longest.clamp_min(torch.finfo(torch.float64).tiny)
    for stack, start in pairs:
        ways = _ways(stack, start) / units[:, None]
        products += ways @ ways.T
    lengths = products.diagonal().sqrt()
    nonzero = lengths.clamp_min(1)  # the longest coordinate is 1, or all are 0
    return longest * lengths, products / nonzero / nonzero[:, None]


def _ways(stack: Tensor, start: Tensor) -> Tensor:
    return (stack.double() - start.double()).reshape(len(stack), -1)


def _mix(stack: Tensor, start: Tensor, parts: Tensor) -> Tensor:
    """Return the mixture of the clients, which are mixed as changes from a start; counters stay there."""
    if not stack.is_floating_point():
        return start
    return (start.double() + (parts @ _ways(stack, start)).view_as(start)).to(start.dtype)
