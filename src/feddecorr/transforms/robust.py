"""Means that a few hostile clients cannot move far, in place of what each client sent.

Every client's update becomes the robust mean of all, so that to any method it looks as if they had agreed: its own
mean of equals is their value. So are what BatchNorm counts and what the method sends beside the weights; the amount of
local work is the median of all. Numbers of examples stay, and matter only where a rule names them.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

import torch
from pydantic import Field, PositiveFloat, PositiveInt
from torch import Tensor

from feddecorr.messages import Broadcast, RoundInfo, Update
from feddecorr.states import State
from feddecorr.transforms.transform import Transform, checked_number

SECTIONS = ("weights", "buffers", "extra")


class Median(Transform):
    """The median of every coordinate (Yin et al., 2018); holds against fewer than half of the clients."""

    def __call__(self, updates: Iterable[Update], broadcast: Broadcast, info: RoundInfo) -> Iterator[Update]:  # noqa: ARG002 - nothing else is needed
        """Take the mean of the middle two of an even number."""
        return agree(updates, by_coordinate(median))


class TrimmedMean(Transform):
    """The mean of every coordinate without its largest and smallest values (Yin et al., 2018).

    Holds against as many clients as are cut off at each end.
    """

    share: float = Field(0.2, ge=0, lt=0.5, description="part of the clients that is cut off at each end")

    def __call__(self, updates: Iterable[Update], broadcast: Broadcast, info: RoundInfo) -> Iterator[Update]:  # noqa: ARG002 - nothing else is needed
        """Cut off whole clients: of 10 clients with 0.25, two at each end."""

        def trimmed(values: Tensor) -> Tensor:
            cut = int(self.share * len(values))
            return values.sort(dim=0).values[cut : len(values) - cut].mean(dim=0)

        return agree(updates, by_coordinate(trimmed))


class GeometricMedian(Transform):
    """The point with the least sum of distances to all clients (RFA: Pillutla et al., 2022), by numbers of examples.

    Holds against clients with less than half of the examples, as the server knew their numbers before.
    """

    iterations: PositiveInt = Field(10, description="steps of Weiszfeld's algorithm; the paper takes 3")
    smoothing: PositiveFloat = Field(1e-6, description="least distance that is divided by")

    def __call__(self, updates: Iterable[Update], broadcast: Broadcast, info: RoundInfo) -> Iterator[Update]:  # noqa: ARG002 - what was sent is not needed
        """Find it for the weights, for BatchNorm's statistics and for what is beside them, each by itself."""

        def find(taken: Sequence[Update], states: Sequence[State]) -> State:
            sizes = torch.tensor([float(info.sizes[update.client]) for update in taken], dtype=torch.float64)
            return self._weiszfeld(states, sizes / sizes.sum())

        return agree(updates, find)

    def _weiszfeld(self, states: Sequence[State], weights: Tensor) -> State:
        names = [name for name, tensor in states[0].items() if tensor.is_floating_point()]
        center = _mix(states, names, weights)
        for _ in range(self.iterations):
            distances = torch.stack([_distance(state, center, names) for state in states])
            pulls = weights / distances.clamp_min(self.smoothing)
            center = _mix(states, names, pulls / pulls.sum())
        counters = {name: median(torch.stack([state[name] for state in states])) for name in states[0]}
        return {name: center[name] if name in center else counters[name] for name in states[0]}


Rule = Callable[[Sequence[Update], Sequence[State]], State]
"""From all updates, and one section of each, to the state of that section in place of theirs."""


def agree(updates: Iterable[Update], rule: Rule) -> Iterator[Update]:
    """Give everybody the same: what the rule makes of all of them."""
    taken = checked_number(list(updates), 1, "a robust mean")
    amount = statistics.median(update.amount for update in taken)
    weights, buffers, extra = (rule(taken, [getattr(update, name) for update in taken]) for name in SECTIONS)
    for update in taken:
        yield replace(update, amount=amount, weights=weights, buffers=buffers, extra=extra)


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


def _mix(states: Sequence[State], names: Sequence[str], shares: Tensor) -> State:
    stacks = {name: torch.stack([state[name] for state in states]) for name in names}
    return {name: torch.einsum("k,k...->...", shares.to(stack.dtype), stack) for name, stack in stacks.items()}


def _distance(one: State, other: State, names: Sequence[str]) -> Tensor:
    squares = [(one[name] - other[name]).double().square().sum() for name in names]
    return torch.stack(squares).sum().sqrt() if squares else torch.zeros((), dtype=torch.float64)
