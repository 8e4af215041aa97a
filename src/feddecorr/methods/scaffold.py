"""SCAFFOLD: control variates take out of each local step what is peculiar to the client."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import torch

from feddecorr.core.messages import RoundInfo, Server, Update
from feddecorr.core.states import Mean, State
from feddecorr.methods.method import Method
from feddecorr.objective.terms import ClientContext, Term, Trained, linear


class SCAFFOLD(Method):
    """Corrects local gradients by c − cᵢ, control variates that begin at zero (Karimireddy et al., ICML 2020).

    cᵢ is the paper's option II, the mean gradient of the client's round. Under momentum the drift is divided by
    the steps counted as plain SGD steps: divided by their bare number it is up to 1/(1 − momentum) times too much.
    """

    needs_sgd = True
    term_names = ("control",)

    def start(self, server: Server, info: RoundInfo) -> Server:
        """Share c = 0; clients begin with cᵢ = 0 by remembering nothing."""
        c = {name: torch.zeros_like(weight) for name, weight in server.weights.items()}
        return replace(server, shared=c)

    def terms(self, context: ClientContext) -> Mapping[str, Term]:
        """Return ⟨c − cᵢ, w⟩, whose gradient is the correction."""
        correction = context.as_parameter_list(context.broadcast.shared)
        if context.memory:
            own = context.as_parameter_list(context.memory)
            correction = [common - mine for common, mine in zip(correction, own, strict=True)]
        return {"control": linear(correction)}

    def finish(self, context: ClientContext, trained: Trained) -> tuple[State, State]:
        """Return the change of cᵢ for the server, and cᵢ ← cᵢ − c + (w − wᵢ)/amount to remember."""
        change, variate = {}, {}
        for name, weight in context.broadcast.weights.items():
            drift = (weight - trained.weights[name]) / trained.amount
            change[name] = drift - context.broadcast.shared[name]
            variate[name] = change[name] + context.memory[name] if context.memory else change[name]
        return change, variate

    def expected_extra(self, server: Server, info: RoundInfo) -> State:
        """Expect a change for each weight."""
        return server.shared

    def aggregate(self, server: Server, updates: Iterable[Update], info: RoundInfo) -> Server:
        """Average the weights, and add the changes to c, each by the client's share of all examples."""
        weights, changes = Mean(), Mean()
        for update in updates:
            weights.add(update.weights, update.examples)
            changes.add(update.extra, update.examples)
        share = changes.weight / info.examples
        c = {name: torch.add(c, changes.value[name], alpha=share) for name, c in server.shared.items()}
        return replace(server, weights=weights.value, shared=c)
