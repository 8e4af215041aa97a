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
from feddecorr.training.batched.chain import makes_maps, multiplications, obstacle

LARGEST = 32
"""Clients in a group under `auto`: more bring little, and fewer groups could be run at once."""

TINY = 1 << 22
"""Multiplications of weights in a step's forward pass, up to which `auto` puts clients side by side.

Beyond that a step's products take longer than the calls that are saved, and the weights of many leave the caches. Of 25
networks with convolutions (widths 8, 16, 32 to 64, 128, LeNet; 8×8 to 32×32) those below took 1.6 to 6 times the
processor time per image one by one; of steps between 4 and 13 million 0.7 to 2.5 times, of larger ones less than once.
"""

THIN = 1 << 18
"""Weights of a network with convolutions, up to which `auto` puts clients side by side.

PyTorch brings the weights of a convolution into another order in every step, and takes longer for that where it has
groups: with 170 thousand weights, one by one took 1.65 times as long, with 690 thousand (the convnet's own widths) 0.55
times, in steps of 4 million multiplications at most.
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
    model = build_model()
    because = _obstacle(experiment, model)
    if not auto:
        if because:
            raise UserError(
                f"training.clients_per_batch={wanted} cannot be: {because}; "
                "training.clients_per_batch=1 is always possible"
            )
        return Together(wanted, merge=merge)
    because = because or _too_large(experiment, model, shape)
    return Together(1, because) if because else Together(_even(experiment.cohort), merge=merge)


def _obstacle(experiment: Experiment, model: nn.Module) -> str:
    if type(experiment.method).gradient is not Method.gradient:
        return f"{type(experiment.method).__name__} takes its gradients by itself, from one client's live network"
    if experiment.training.precision != "fp32":
        return f"training.precision={experiment.training.precision} is for a network by itself"
    if experiment.method.needs_feature_maps and makes_maps(model):
        return f"{type(experiment.method).__name__} looks at what one client's live network makes on its way"
    return obstacle(model) or ""


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
    if makes_maps(model) and weights > THIN:
        return f"convolutions of {weights} weights in all are not thin"
    batch, work = experiment.training.batch, multiplications(model, shape)
    return f"a batch of {batch} with {work} multiplications each is no tiny step" if batch * work > TINY else ""


def _even(cohort: int) -> int:
    """Return the size of an even number of groups that are as large as each other."""
    return math.ceil(cohort / (2 * math.ceil(cohort / (2 * LARGEST))))
