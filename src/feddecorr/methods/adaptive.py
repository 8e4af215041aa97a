"""FedAdagrad, FedAdam and FedYogi: adaptive optimizers at the server; the clients' mean change is their gradient."""

from __future__ import annotations

from dataclasses import replace

import torch
from pydantic import Field
from torch import Tensor

from feddecorr.core.messages import RoundInfo, Server
from feddecorr.core.states import State
from feddecorr.methods.method import Method

FIRST, SECOND = "first/", "second/"


class Adaptive(Method):
    """What the three share: options, moments and the step; nothing is bias-corrected."""

    lr: float = Field(0.01, gt=0, description="η, learning rate of the server")
    beta1: float = Field(0.9, ge=0, lt=1, description="β₁, decay of the first moment")
    tau: float = Field(1e-3, gt=0, description="τ, how little the step adapts")

    def start(self, server: Server, info: RoundInfo) -> Server:
        """Let the first moment m begin at 0 and the second, v, at τ²."""
        first = {FIRST + name: torch.zeros_like(weight) for name, weight in server.weights.items()}
        second = {SECOND + name: torch.full_like(weight, self.tau**2) for name, weight in server.weights.items()}
        return replace(server, memory={**first, **second})

    def server_update(self, server: Server, mean: State, info: RoundInfo) -> Server:
        """Return w + η·m/(√v + τ) after m ← β₁·m + (1−β₁)·Δ and the update of v."""
        weights: State = {}
        memory: State = {}
        for name, before in server.weights.items():
            change = mean[name] - before
            first = torch.lerp(change, server.memory[FIRST + name], self.beta1)
            second = self.second_moment(server.memory[SECOND + name], change.square())
            weights[name] = torch.addcdiv(before, first, second.sqrt().add_(self.tau), value=self.lr)
            memory |= {FIRST + name: first, SECOND + name: second}
        return replace(server, weights=weights, memory=memory)

    def second_moment(self, v: Tensor, square: Tensor) -> Tensor:
        """Return the next v, given Δ²."""
        raise NotImplementedError


class FedAdagrad(Adaptive):
    """Takes an Adagrad step at the server, v ← v + Δ², with Δ the mean change (Reddi et al., 2021)."""

    beta1: float = Field(0.0, ge=0, lt=1, description="β₁, decay of the first moment")

    def second_moment(self, v: Tensor, square: Tensor) -> Tensor:
        """Add up."""
        return v + square


class FedAdam(Adaptive):
    """Takes an Adam step at the server, v ← β₂·v + (1−β₂)·Δ², with Δ the mean change (Reddi et al., 2021)."""

    beta2: float = Field(0.99, ge=0, lt=1, description="β₂, decay of the second moment")

    def second_moment(self, v: Tensor, square: Tensor) -> Tensor:
        """Average exponentially."""
        return self.beta2 * v + (1 - self.beta2) * square


class FedYogi(Adaptive):
    """Takes a Yogi step at the server, v ← v − (1−β₂)·Δ²·sign(v − Δ²), with Δ the mean change (Reddi et al., 2021)."""

    beta2: float = Field(0.99, ge=0, lt=1, description="β₂, how slowly the second moment follows")

    def second_moment(self, v: Tensor, square: Tensor) -> Tensor:
        """Go towards Δ², by no more than (1−β₂)·Δ²."""
        return v - (1 - self.beta2) * square * (v - square).sign()
