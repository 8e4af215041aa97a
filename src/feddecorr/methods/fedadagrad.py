"""FedAdagrad: Adagrad at the server."""

from __future__ import annotations

from pydantic import Field

from feddecorr.core.messages import RoundInfo, Server
from feddecorr.core.states import State
from feddecorr.methods import adaptive
from feddecorr.methods.method import Method


class FedAdagrad(Method):
    """Takes an Adagrad step at the server, v ← v + Δ², with Δ the mean change (Reddi et al., 2021)."""

    lr: float = Field(0.01, gt=0, description="η, learning rate of the server")
    beta1: float = Field(0.0, ge=0, lt=1, description="β₁, decay of the first moment")
    tau: float = Field(1e-3, gt=0, description="τ, how little the step adapts")

    def start(self, server: Server, info: RoundInfo) -> Server:
        """Prepare the moments."""
        return adaptive.start(server, self.tau)

    def server_update(self, server: Server, mean: State, info: RoundInfo) -> Server:
        """Take the step."""
        return adaptive.step(server, mean, lambda v, square: v + square, lr=self.lr, beta1=self.beta1, tau=self.tau)
