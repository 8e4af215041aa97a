"""FedAvgM: the server moves with momentum."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import torch
from pydantic import Field

from feddecorr.core.messages import RoundInfo, Server
from feddecorr.core.states import State
from feddecorr.methods.method import Method


class FedAvgM(Method):
    """Adds server momentum, v ← ρ·v + Δ and w ← w + v, with Δ the mean change (Hsu, Qi and Brown, 2019)."""

    momentum: float = Field(0.5, ge=0, lt=1, description="ρ, the part of the last movement that is kept")
    variant: Literal["published", "released"] = Field(
        "published", description="released: as in the code of FedDecorr's authors, v ← ρ·v + (1−ρ)·Δ"
    )

    def start(self, server: Server, info: RoundInfo) -> Server:
        """Let the velocity begin at zero."""
        return replace(server, memory={name: torch.zeros_like(weight) for name, weight in server.weights.items()})

    def server_update(self, server: Server, mean: State, info: RoundInfo) -> Server:
        """Go to the mean and on by what is carried over; with ρ = 0 that is the mean to the last bit."""
        weights, velocity = {}, {}
        for name, before in server.weights.items():
            change = mean[name] - before
            carried = server.memory[name]
            if self.variant == "released":
                carried = carried - change
            weights[name] = torch.add(mean[name], carried, alpha=self.momentum)
            velocity[name] = torch.add(change, carried, alpha=self.momentum)
        return replace(server, weights=weights, memory=velocity)
