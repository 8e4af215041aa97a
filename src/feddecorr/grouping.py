"""How many clients train side by side: decided by the experiment alone, so that every engine forms the same groups."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import nn

from feddecorr.errors import UserError
from feddecorr.local_training.stacked import obstacle
from feddecorr.methods.method import Method

if TYPE_CHECKING:
    from feddecorr.settings.experiment import Experiment

LARGEST = 32
"""Clients in a group under `auto`: more bring little, and fewer groups could be run at once."""

TINY = 1 << 22
"""Images in a batch times weights of the network, up to which `auto` puts clients side by side.

Beyond that a step's products take longer than the calls that are saved, and the weights of many leave the caches.
"""


@dataclass(frozen=True)
class Together:
    """The number of clients that train side by side and, where they could have, why they do not."""

    clients: int
    because: str = ""


def choose(experiment: Experiment, build_model: Callable[[], nn.Module]) -> Together:
    """Return what the experiment asks for, or refuse what cannot be."""
    wanted = experiment.training.together
    if wanted == 1:
        return Together(1)
    model = build_model()
    because = _obstacle(experiment, model)
    if wanted != "auto":
        if because:
            raise UserError(f"training.together={wanted} cannot be: {because}; training.together=1 is always possible")
        return Together(wanted)
    because = because or _too_large(experiment, model)
    return Together(1, because) if because else Together(_even(experiment.cohort))


def _obstacle(experiment: Experiment, model: nn.Module) -> str:
    if type(experiment.method).gradient is not Method.gradient:
        return f"{type(experiment.method).__name__} takes its gradients by itself, from one client's live network"
    if experiment.training.precision != "fp32":
        return f"training.precision={experiment.training.precision} is for a network by itself"
    return obstacle(model) or ""


def _too_large(experiment: Experiment, model: nn.Module) -> str:
    weights = sum(parameter.numel() for parameter in model.parameters())
    work = weights * experiment.training.batch
    return f"a batch of {experiment.training.batch} for {weights} weights is no tiny step" if work > TINY else ""


def _even(cohort: int) -> int:
    """Return the size of an even number of groups that are as large as each other."""
    return math.ceil(cohort / (2 * math.ceil(cohort / (2 * LARGEST))))
