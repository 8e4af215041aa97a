"""FedExP: the server goes beyond the mean as far as the clients disagree."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from pydantic import Field

from feddecorr.core.messages import RoundInfo, Server, Update
from feddecorr.core.states import Mean, extrapolate, square_distance
from feddecorr.methods.method import Method


class FedExP(Method):
    """Extrapolates by max(1, Σ pᵢ‖Δᵢ‖² / 2(‖Δ‖² + ε)), with Δ the mean change (Jhunjhunwala et al., ICLR 2023)."""

    epsilon: float = Field(1e-3, gt=0, description="ε, keeps the step bounded when the mean change is small")

    def aggregate(self, server: Server, updates: Iterable[Update], info: RoundInfo) -> Server:
        """Go to the mean and on; where clients agree that is the mean to the last bit."""
        mean = Mean()
        squares = 0.0
        for update in updates:
            mean.add(update.weights, update.examples)
            squares += update.examples * square_distance(update.weights, server.weights)
        moved = square_distance(mean.value, server.weights)
        factor = max(1.0, squares / mean.weight / (2 * (moved + self.epsilon)))
        return replace(server, weights=extrapolate(server.weights, mean.value, factor))
