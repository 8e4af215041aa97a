"""FedNova: clients that took more steps do not count for more."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from feddecorr.core.messages import RoundInfo, Server, Update
from feddecorr.core.states import Mean, extrapolate
from feddecorr.methods.method import Method


class FedNova(Method):
    """Averages the clients' changes per local step, then takes their mean number of steps (Wang et al., NeurIPS 2020).

    Steps are counted as plain SGD steps: under momentum, ‖aᵢ‖₁ of the paper.
    """

    needs_sgd = True

    def aggregate(self, server: Server, updates: Iterable[Update], info: RoundInfo) -> Server:
        """Return w + (Σ pᵢ·aᵢ)·Σ pᵢ·(wᵢ − w)/aᵢ, with pᵢ the client's share of the round's examples.

        Written as the mean by pᵢ/aᵢ and a factor by which to go to it: with equal work, 1. Amounts are taken in
        units of the first, so that equal ones leave no trace in the last bits.
        """
        mean = Mean()
        unit = examples = work = 0.0
        for update in updates:
            unit = unit or update.amount
            mean.add(update.weights, update.examples / (update.amount / unit))
            examples += update.examples
            work += update.examples * (update.amount / unit)
        factor = (work / examples) * (mean.weight / examples)
        return replace(server, weights=extrapolate(server.weights, mean.value, factor))
