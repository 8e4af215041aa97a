"""The learning rate over rounds: a factor for each round, the same for all steps of it."""

from __future__ import annotations

import math

from pydantic import Field, NonNegativeInt, PositiveInt

from feddecorr.core.registry import Config, Registry


class Schedule(Config):
    """How the learning rate changes from round to round."""

    def factor(self, number: int) -> float:
        """Return by what the learning rate is multiplied in that round, counted from 1."""
        raise NotImplementedError


class Constant(Schedule):
    """The same learning rate in every round, as in the paper."""

    def factor(self, number: int) -> float:  # noqa: ARG002 - whatever the round
        """Return 1."""
        return 1.0


class Cosine(Schedule):
    """Half a cosine from the learning rate down to a share of it (Loshchilov and Hutter, 2017).

    With `hold`, the learning rate stays constant for that many rounds before it falls (warmup-stable-decay without the
    warmup): one run then shows both the constant learning rate and what annealing makes of it.
    """

    over: PositiveInt = Field(description="rounds that it takes")
    floor: float = Field(0.0, ge=0, le=1, description="share of the learning rate that is left at the end and after")
    hold: NonNegativeInt = Field(0, description="rounds at the full learning rate before it falls")

    def factor(self, number: int) -> float:
        """Return 1 in the first round; the floor is reached in the round after the last."""
        done = min(max(number - 1 - self.hold, 0) / self.over, 1.0)
        return self.floor + (1 - self.floor) * (1 + math.cos(math.pi * done)) / 2


class Step(Schedule):
    """A drop by a factor after every so many rounds."""

    every: PositiveInt = Field(30, description="rounds between two drops")
    drop: float = Field(0.1, gt=0, lt=1, description="what is left of the learning rate after a drop")

    def factor(self, number: int) -> float:
        """Return the drop to the power of the number of drops so far."""
        return float(self.drop ** ((number - 1) // self.every))


SCHEDULES = Registry("schedule", Schedule, {"constant": Constant, "cosine": Cosine, "step": Step})
