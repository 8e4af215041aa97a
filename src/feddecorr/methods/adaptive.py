"""FedAdagrad, FedAdam and FedYogi: adaptive optimizers at the server; the clients' mean change is their gradient."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from pydantic import Field
from torch import Tensor

from feddecorr.core.messages import RoundInfo, Server
from feddecorr.core.states import State
from feddecorr.methods.method import Method

FIRST, SECOND = "first/", "second/"

SecondMoment = Callable[[Tensor, Tensor], Tensor]
"""From v and the squared change to the next v."""


def _start(server: Server, tau: float) -> Server:
    """Let the first moment m begin at 0 and the second, v, at τ²."""
    first = {FIRST + name: torch.zeros_like(weight) for name, weight in server.weights.items()}
    second = {SECOND + name: torch.full_like(weight, tau**2) for name, weight in server.weights.items()}
    return replace(server, memory={**first, **second})


def _step(server: Server, mean: State, accumulate: SecondMoment, *, lr: float, beta1: float, tau: float) -> Server:
    """Return w + η·m/(√v + τ) after m ← β₁·m + (1−β₁)·Δ and v ← accumulate(v, Δ²); nothing is bias-corrected."""
    weights: State = {}
    memory: State = {}
    for name, before in server.weights.items():
        change = mean[name] - before
        first = torch.lerp(change, server.memory[FIRST + name], beta1)
        second = accumulate(server.memory[SECOND + name], change.square())
        weights[name] = torch.addcdiv(before, first, second.sqrt().add_(tau), value=lr)
        memory |= {FIRST + name: first, SECOND + name: second}
    return replace(server, weights=weights, memory=memory)


class FedAdagrad(Method):
    """Takes an Adagrad step at the server, v ← v + Δ², with Δ the mean change (Reddi et al., 2021)."""

    lr: float = Field(0.01, gt=0, description="η, learning rate of the server")
    beta1: float = Field(0.0, ge=0, lt=1, description="β₁, decay of the first moment")
    tau: float = Field(1e-3, gt=0, description="τ, how little the step adapts")

    def start(self, server: Server, info: RoundInfo) -> Server:
        """Prepare the moments."""
        return _start(server, self.tau)

    def server_update(self, server: Server, mean: State, info: RoundInfo) -> Server:
        """Take the step."""
        return _step(server, mean, lambda v, square: v + square, lr=self.lr, beta1=self.beta1, tau=self.tau)


class FedAdam(Method):
    """Takes an Adam step at the server, v ← β₂·v + (1−β₂)·Δ², with Δ the mean change (Reddi et al., 2021)."""

    lr: float = Field(0.01, gt=0, description="η, learning rate of the server")
    beta1: float = Field(0.9, ge=0, lt=1, description="β₁, decay of the first moment")
    beta2: float = Field(0.99, ge=0, lt=1, description="β₂, decay of the second moment")
    tau: float = Field(1e-3, gt=0, description="τ, how little the step adapts")

    def start(self, server: Server, info: RoundInfo) -> Server:
        """Prepare the moments."""
        return _start(server, self.tau)

    def server_update(self, server: Server, mean: State, info: RoundInfo) -> Server:
        """Take the step."""
        return _step(server, mean, self._accumulate, lr=self.lr, beta1=self.beta1, tau=self.tau)

    def _accumulate(self, v: Tensor, square: Tensor) -> Tensor:
        return self.beta2 * v + (1 - self.beta2) * square


class FedYogi(Method):
    """Takes a Yogi step at the server, v ← v − (1−β₂)·Δ²·sign(v − Δ²), with Δ the mean change (Reddi et al., 2021)."""

    lr: float = Field(0.01, gt=0, description="η, learning rate of the server")
    beta1: float = Field(0.9, ge=0, lt=1, description="β₁, decay of the first moment")
    beta2: float = Field(0.99, ge=0, lt=1, description="β₂, how slowly the second moment follows")
    tau: float = Field(1e-3, gt=0, description="τ, how little the step adapts")

    def start(self, server: Server, info: RoundInfo) -> Server:
        """Prepare the moments."""
        return _start(server, self.tau)

    def server_update(self, server: Server, mean: State, info: RoundInfo) -> Server:
        """Take the step."""
        return _step(server, mean, self._accumulate, lr=self.lr, beta1=self.beta1, tau=self.tau)

    def _accumulate(self, v: Tensor, square: Tensor) -> Tensor:
        return v - (1 - self.beta2) * square * (v - square).sign()
