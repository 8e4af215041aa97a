"""How much privacy an experiment spends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from feddecorr.config.experiment import Experiment
from feddecorr.errors import UserError
from feddecorr.transforms import LocallyPrivate, Private
from feddecorr.transforms.privacy_loss import Neighbours, epsilon

NEIGHBOURS = {"fixed": Neighbours.REPLACE, "poisson": Neighbours.ADD_OR_REMOVE}
"""Whom the guarantee is about, by the draw of clients: of a fixed number, another one takes the place of the first."""


@dataclass(frozen=True)
class Spent:
    """The guarantee (ε, δ) after some rounds.

    `epsilon` holds against whoever does not know who was drawn; `epsilon_if_drawn` counts on no draw: it holds for a
    client that is known to have been in every round. `neighbours` are those whom nobody can tell apart.
    """

    rounds: int
    delta: float
    epsilon: float
    epsilon_if_drawn: float
    neighbours: str

    def to_dict(self) -> dict[str, Any]:
        """Return everything, ready for JSON."""
        return dict(vars(self))


def privacy_spent(experiment: Experiment, rounds: int, delta: float | None = None) -> Spent:
    """Return what so many rounds of the experiment spend; δ is 1 over ten times the number of clients by default.

    A trusted server's noise hides a client among all. The noise of the clients themselves hides what they sent: there
    the draw hides nothing, since the server knows it.
    """
    delta = 0.1 / experiment.clients if delta is None else delta
    if not 0 < delta < 1:
        raise UserError(f"delta={delta} is no probability above 0 and below 1")
    for transform in experiment.transforms.values():
        if isinstance(transform, Private):
            neighbours = NEIGHBOURS[experiment.sampling]
            spent, known = (
                epsilon(q, transform.noise_multiplier, rounds, delta, neighbours) for q in (experiment.rate, 1.0)
            )
            return Spent(rounds, delta, spent, known, neighbours.value)
        if isinstance(transform, LocallyPrivate):
            spent = epsilon(1.0, transform.noise_multiplier, rounds, delta, Neighbours.REPLACE)
            return Spent(rounds, delta, spent, spent, "any two changes of a client that is in every round")
    raise UserError("nothing is private in this experiment: choose transforms=private or transforms=locally_private")
