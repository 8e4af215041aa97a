"""FedDyn: each client's objective is bent so that its minimum is the global one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import torch
from pydantic import Field

from feddecorr.core.messages import RoundInfo, Server, Update
from feddecorr.core.states import Mean, State
from feddecorr.methods.method import Method
from feddecorr.objective.terms import ClientContext, Term, Trained, proximal

DRIFT = "drift/"


class FedDyn(Method):
    """Adds −⟨gᵢ, w⟩ + (α/2)·‖w − wᵗ‖², with gᵢ the client's last gradient (Acar et al., ICLR 2021).

    Gradients are kept divided by α, as drifts uᵢ = gᵢ/α: the two terms are then (α/2)·‖w − (wᵗ + uᵢ)‖² up to a
    constant, and the server's state h/α is the mean of all uᵢ.
    """

    term_names = ("dynamic",)

    alpha: float = Field(0.01, gt=0, description="α, weight of the dynamic regularizer")

    def start(self, server: Server, info: RoundInfo) -> Server:
        """Let the mean drift begin at zero; clients begin at zero by remembering nothing."""
        drift = {DRIFT + name: torch.zeros_like(weight) for name, weight in server.weights.items()}
        return replace(server, memory=drift)

    def terms(self, context: ClientContext) -> Mapping[str, Term]:
        """Return the dynamic regularizer."""
        anchor = context.as_parameter_list(context.broadcast.weights)
        if context.memory:
            anchor = [
                sent + drift for sent, drift in zip(anchor, context.as_parameter_list(context.memory), strict=True)
            ]
        return {"dynamic": proximal(self.alpha, anchor)}

    def finish(self, context: ClientContext, trained: Trained) -> tuple[State, State]:
        """Remember uᵢ ← uᵢ − (wᵢ − wᵗ)."""
        drift = {name: weight - trained.weights[name] for name, weight in context.broadcast.weights.items()}
        return {}, {name: drift[name] + context.memory[name] for name in drift} if context.memory else drift

    def aggregate(self, server: Server, updates: Iterable[Update], info: RoundInfo) -> Server:
        """Move the mean drift by the changes, each by the client's share of all examples; take it off the mean."""
        mean = Mean()
        for update in updates:
            mean.add(update.weights, update.examples)
        share = mean.weight / info.examples
        weights, memory = {}, {}
        for name, before in server.weights.items():
            change = mean.value[name] - before
            drift = torch.sub(server.memory[DRIFT + name], change, alpha=share)
            weights[name] = mean.value[name] - drift
            memory[DRIFT + name] = drift
        return replace(server, weights=weights, memory=memory)
