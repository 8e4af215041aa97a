"""Privacy accounting: the (ε, δ) guarantee that an experiment spends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from feddecorr.config.experiment import Experiment
from feddecorr.errors import UserError
from feddecorr.transforms.privacy_loss import NeighboringRelation, epsilon
from feddecorr.transforms.private import LocallyPrivate, Private

NEIGHBORING_RELATIONS = {"fixed": NeighboringRelation.REPLACE, "poisson": NeighboringRelation.ADD_OR_REMOVE}
"""The neighboring relation by sampling scheme: in a cohort of fixed size, another client takes the place of one."""


@dataclass(frozen=True)
class PrivacySpent:
    """The guarantee (ε, δ) after some rounds.

    `epsilon` holds against anyone who does not know which clients were sampled. `epsilon_if_drawn` does not rely on
    sampling: it holds for a client that is known to have been in every round.
    """

    rounds: int
    delta: float
    epsilon: float
    epsilon_if_drawn: float
    neighbours: str

    def to_dict(self) -> dict[str, Any]:
        """Return all fields, ready for JSON."""
        return dict(vars(self))


def privacy_spent(experiment: Experiment, rounds: int, delta: float | None = None) -> PrivacySpent:
    """Return the privacy spent by a number of rounds; δ defaults to 1/(10·clients).

    Under local privacy, sampling amplifies nothing, since the server knows which clients it sampled.
    """
    delta = 0.1 / experiment.clients if delta is None else delta
    if not 0 < delta < 1:
        raise UserError(f"delta={delta} is not a probability between 0 and 1")
    for transform in experiment.transforms.values():
        if isinstance(transform, Private):
            relation = NEIGHBORING_RELATIONS[experiment.sampling]
            spent, known = (
                epsilon(q, transform.noise_multiplier, rounds, delta, relation) for q in (experiment.rate, 1.0)
            )
            return PrivacySpent(rounds, delta, spent, known, relation.value)
        if isinstance(transform, LocallyPrivate):
            spent = epsilon(1.0, transform.noise_multiplier, rounds, delta, NeighboringRelation.REPLACE)
            return PrivacySpent(rounds, delta, spent, spent, "any two updates of a client that is in every round")
    raise UserError("this experiment is not private: choose transforms=private or transforms=locally_private")
