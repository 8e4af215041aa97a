"""How many clients train side by side: decided by the experiment alone, so that every engine forms the same groups."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from torch import nn

from feddecorr.config.experiment import Experiment
from feddecorr.config.training import Evaluation
from feddecorr.errors import UserError
from feddecorr.methods.method import Method
from feddecorr.models.model import Shape
from feddecorr.training.batched.linear import linear_chain
from feddecorr.training.batched.trial import multiplications, obstacle

LARGEST = 32
"""Clients in a group under `auto`: more bring little, and fewer groups could be run at once."""

TINY = 1 << 20
"""Multiplications of a batch with the weights of one layer, on average, up to which `auto` trains clients at once.

Below, a step takes longer to be called than to be done, on any device, and clients at once share the calls; above, the
products take the time, and there is nothing to share.
"""

THIN = 1 << 18
"""Weights up to which `auto` trains clients at once, but for perceptrons.

Every step of every client reads and writes them all, and stacked convolutions bring them into another order, too.
"""


@dataclass(frozen=True)
class Together:
    """The number of clients that train side by side and, where they could have, why they do not.

    `merge` says that whoever trained them sends the mean of their updates.
    """

    clients: int
    because: str = ""
    merge: bool = False


def choose(
    experiment: Experiment,
    shape: Shape,
    build_model: Callable[[], nn.Module],
    *,
    evaluation: Evaluation,
    auto: bool = False,
) -> Together:
    """Return what the experiment asks for on images of that shape, or refuse what cannot be; or choose, with `auto`."""
    wanted, merge = experiment.training.clients_per_batch, experiment.training.pre_aggregate
    if merge and (looks := _who_looks(experiment, evaluation, auto=auto)):
        raise UserError(f"training.pre_aggregate=true cannot be: {looks}")
    if wanted == 1 and not auto:
        return Together(1)
    because = _obstacle(experiment)
    model = build_model()
    if auto:
        because = because or _too_large(experiment, model, shape)
    because = because or obstacle(model, shape)
    if because and not auto:
        raise UserError(
            f"training.clients_per_batch={wanted} cannot be: {because}; training.clients_per_batch=1 is always possible"
        )
    if because:
        return Together(1, because)
    return Together(_even(experiment.cohort) if auto else wanted, merge=merge)


def _obstacle(experiment: Experiment) -> str:
    if type(experiment.method).gradient is not Method.gradient:
        return f"{type(experiment.method).__name__} takes its gradients by itself, from one client's live network"
    if experiment.training.precision != "fp32":
        return f"training.precision={experiment.training.precision} is for a network by itself"
    return ""


def _who_looks(experiment: Experiment, evaluation: Evaluation, *, auto: bool) -> str:
    """Return who needs the update of each client by itself; nobody where their mean will do."""
    if experiment.training.clients_per_batch == 1 and not auto:
        return "clients that train one by one have no mean of their own; say training.clients_per_batch=auto"
    if experiment.method.needs_each():
        return f"{type(experiment.method).__name__} needs more of its clients than the mean of their weights"
    if experiment.transforms:
        return f"transforms={','.join(experiment.transforms)} is for the update of each client"
    if experiment.batchnorm == "local":
        return "with batchnorm=local each client keeps statistics of its own"
    if evaluation.clients or evaluation.epochs:
        return "evaluation.clients and evaluation.epochs are about each client"
    return ""


def _too_large(experiment: Experiment, model: nn.Module, shape: Shape) -> str:
    weights = sum(parameter.numel() for parameter in model.parameters())
    if weights > THIN and not linear_chain(model):
        return f"a network of {weights} weights is not thin"
    batch, work = experiment.training.batch, multiplications(model, shape)
    each = batch * sum(work) // max(1, len(work))
    return f"a batch of {batch} with {each} multiplications in a layer is no tiny step" if each > TINY else ""


def _even(cohort: int) -> int:
    """Return the size of an even number of groups that are as large as each other."""
    return math.ceil(cohort / (2 * math.ceil(cohort / (2 * LARGEST))))
