"""Hostile clients, to see what others hold against them: for simulations alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Literal

import torch
from pydantic import Field, PositiveFloat, PositiveInt
from torch import Tensor

from feddecorr.messages import Broadcast, RoundInfo, Update
from feddecorr.randomness import generator
from feddecorr.states import State, extrapolate
from feddecorr.transforms.transform import Transform


class Attack(Transform):
    """Lets the first clients be hostile: they send noise, or their own change turned round or scaled up.

    Choose it before what is to hold against it: transforms=attack,median.
    """

    clients: PositiveInt = Field(2, description="how many are hostile: those with the lowest numbers")
    sends: Literal["noise", "flipped", "scaled"] = Field("flipped", description="what they send")
    strength: PositiveFloat = Field(
        10.0, description="the length of a hostile change, measured by that of the client's honest one"
    )

    def __call__(self, updates: Iterable[Update], broadcast: Broadcast, info: RoundInfo) -> Iterator[Update]:
        """Change what the hostile ones send, all with the same random numbers for the same round and client."""
        for update in updates:
            if update.client >= self.clients:
                yield update
                continue
            yield replace(update, weights=self._change(update, broadcast, info))

    def _change(self, update: Update, broadcast: Broadcast, info: RoundInfo) -> State:
        if self.sends != "noise":
            factor = self.strength if self.sends == "scaled" else -self.strength
            return extrapolate(broadcast.weights, update.weights, factor)
        stream = generator(info.seed, "attack", info.round, update.client)
        drawn = {name: torch.randn(start.shape, generator=stream) for name, start in broadcast.weights.items()}
        changes = {name: update.weights[name] - start for name, start in broadcast.weights.items()}
        return {
            name: start + self.strength * _as_long(drawn[name], changes[name])
            for name, start in broadcast.weights.items()
        }


def _as_long(noise: Tensor, like: Tensor) -> Tensor:
    scaled: Tensor = noise.to(like.dtype) * (like.norm() / noise.norm().clamp_min(1e-12))
    return scaled
