"""How much privacy is spent, by the accountant of Opacus, which is an extra of this package."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from feddecorr.errors import UserError

if TYPE_CHECKING:
    from feddecorr.settings.experiment import Experiment

ORDERS = [1 + step / 10 for step in range(1, 100)] + [float(order) for order in range(12, 512)]
"""Orders of Rényi divergence over which the bound is minimized."""


@dataclass(frozen=True)
class Spent:
    """The guarantee (ε, δ) after some rounds.

    `epsilon` counts on the draw of clients, taken for independent draws at the rate of participation, as it is usual;
    `epsilon_if_drawn` does not: it holds for a client that is known to have been in every round.
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

    A trusted server's noise hides that a client took part at all; noise of the clients' own hides what they sent:
    there, two updates differ by twice the norm, and the draw hides nothing, since the server knows it.
    """
    from feddecorr.transforms import LocallyPrivate, Private  # noqa: PLC0415 - they are kinds of an experiment

    delta = 0.1 / experiment.clients if delta is None else delta
    if not 0 < delta < 1:
        raise UserError(f"delta={delta} is no probability above 0 and below 1")
    for transform in experiment.transforms.values():
        if isinstance(transform, Private):
            rate = experiment.cohort / experiment.clients
            spent, known = (epsilon(q, transform.noise, rounds, delta) for q in (rate, 1.0))
            return Spent(rounds, delta, spent, known, "with or without a client")
        if isinstance(transform, LocallyPrivate):
            spent = epsilon(1.0, transform.noise / 2, rounds, delta)
            return Spent(rounds, delta, spent, spent, "any two updates of a client that is in every round")
    raise UserError("nothing is private in this experiment: choose transforms=private or transforms=locally_private")


def epsilon(rate: float, noise: float, steps: int, delta: float) -> float:
    """Return ε of so many steps of the Gaussian mechanism on Poisson samples (Mironov et al., 2019)."""
    rdp = _analysis()
    if not steps:
        return 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it says so when the best order is the largest: the bound holds all the same
        divergences = rdp.compute_rdp(q=rate, noise_multiplier=noise, steps=steps, orders=ORDERS)
        found, _ = rdp.get_privacy_spent(orders=ORDERS, rdp=divergences, delta=delta)
    return float(found)


def _analysis() -> Any:
    try:
        from opacus.accountants.analysis import rdp  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise UserError(f"privacy is counted by Opacus ({error}): pip install 'feddecorr[privacy]'") from error
    return rdp
