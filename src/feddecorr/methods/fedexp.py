"""FedExP: the server goes beyond the mean as far as the clients disagree."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from pydantic import Field

from feddecorr.messages import Server, State, Update
from feddecorr.methods.method import Mean, Method, extrapolate


class FedExP(Method):
    """Extrapolates by max(1, Σ pᵢ‖Δᵢ‖² / 2(‖Δ‖² + ε)), with Δ the mean change (Jhunjhunwala et al., ICLR 2023)."""

    epsilon: float = Field(1e-3, gt=0, description="ε, keeps the step bounded when the mean change is small")

    def step(self, server: Server, updates: Iterable[Update]) -> Server:
        """Go to the mean and on; where clients agree that is the mean to the last bit."""
        mean = Mean()
        squares = 0.0
        for update in updates:
            mean.add(update.weights, update.examples)
            squares += update.examples * _square_distance(update.weights, server.weights)
        moved = _square_distance(mean.value, server.weights)
        factor = max(1.0, squares / mean.weight / (2 * (moved + self.epsilon)))
        return replace(server, weights=extrapolate(server.weights, mean.value, factor))


def _square_distance(one: State, other: State) -> float:
    return sum(float((one[name] - other[name]).square().sum()) for name in other)
