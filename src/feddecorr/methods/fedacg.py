"""FedACG: clients begin where the server's momentum leads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch
from pydantic import Field

from feddecorr.core.messages import Broadcast, RoundInfo, Server
from feddecorr.core.states import State
from feddecorr.methods.method import Method
from feddecorr.objective.terms import ClientContext, Term, proximal


class FedACG(Method):
    """Sends w + λ·m, a look ahead along the server's momentum, and holds clients near it (Kim et al., CVPR 2024).

    With m ← λ·m + Δ, Δ the mean change from what was sent, w ← w + m is the clients' mean, and m is what the server
    moved by. Nothing is sent besides the weights.
    """

    term_names = ("proximal",)

    momentum: float = Field(0.85, ge=0, lt=1, description="λ, the part of the last movement by which clients are ahead")
    mu: float = Field(1e-3, ge=0, description="weight of the proximal term, the paper's β")

    def start(self, server: Server, info: RoundInfo) -> Server:
        """Let the momentum begin at zero."""
        return replace(server, memory={name: torch.zeros_like(weight) for name, weight in server.weights.items()})

    def broadcast(self, number: int, server: Server) -> Broadcast:
        """Send the model that the momentum leads to."""
        ahead = {name: torch.add(w, server.memory[name], alpha=self.momentum) for name, w in server.weights.items()}
        return replace(Broadcast.of(number, server), weights=ahead)

    def terms(self, context: ClientContext) -> Mapping[str, Term]:
        """Return (μ/2)·‖w − sent‖²."""
        return {"proximal": proximal(self.mu, context.as_parameter_list(context.broadcast.weights))}

    def server_update(self, server: Server, mean: State, info: RoundInfo) -> Server:
        """Go to the mean, and remember the movement."""
        return replace(server, weights=mean, memory={name: mean[name] - w for name, w in server.weights.items()})
