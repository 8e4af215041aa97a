"""How clients train (with schedules of the learning rate), and how models are evaluated (with further measures)."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, NonNegativeInt, PositiveFloat, PositiveInt

from feddecorr.collapse.diagnosis import ClassSpreads, Diagnosis
from feddecorr.collapse.measures import Principal
from feddecorr.core.registry import Config, Registry
from feddecorr.models.partial import ADAPTERS, Adapter, Patterns
from feddecorr.objective.optimizers import OPTIMIZERS, SGD, Optimizer


class Schedule(Config):
    """How the learning rate changes from round to round."""

    def factor(self, number: int) -> float:
        """Return by what the learning rate is multiplied in that round, counted from 1."""
        raise NotImplementedError


class Constant(Schedule):
    """The same learning rate in every round, as in the paper."""

    def factor(self, number: int) -> float:  # noqa: ARG002 - whatever the round
        """Return 1."""
        return 1.0


class Cosine(Schedule):
    """Half a cosine from the learning rate down to a share of it (Loshchilov and Hutter, 2017).

    With `hold`, the learning rate stays constant for that many rounds before it falls (warmup-stable-decay without the
    warmup): one run then shows both the constant learning rate and what annealing makes of it.
    """

    over: PositiveInt = Field(description="rounds that it takes")
    floor: float = Field(0.0, ge=0, le=1, description="share of the learning rate that is left at the end and after")
    hold: NonNegativeInt = Field(0, description="rounds at the full learning rate before it falls")

    def factor(self, number: int) -> float:
        """Return 1 in the first round; the floor is reached in the round after the last."""
        done = min(max(number - 1 - self.hold, 0) / self.over, 1.0)
        return self.floor + (1 - self.floor) * (1 + math.cos(math.pi * done)) / 2


class Step(Schedule):
    """A drop by a factor at regular intervals."""

    every: PositiveInt = Field(30, description="rounds between two drops")
    drop: float = Field(0.1, gt=0, lt=1, description="what is left of the learning rate after a drop")

    def factor(self, number: int) -> float:
        """Return the drop to the power of the number of drops so far."""
        return float(self.drop ** ((number - 1) // self.every))


SCHEDULES = Registry("schedule", Schedule, {"constant": Constant, "cosine": Cosine, "step": Step})


class Training(Config):
    """How a client trains; the defaults are the paper's."""

    epochs: PositiveInt | PositiveFloat = Field(
        10, description="passes over the client's data in a round; of a fraction, so much of the last pass"
    )
    steps: PositiveInt | None = Field(None, description="local steps in a round, in place of epochs")
    batch: PositiveInt = Field(64, description="examples in a step")
    optimizer: Annotated[Optimizer, *OPTIMIZERS.field()] = Field(
        SGD(), description="the local optimizer, new in every round: sgd, adamw, or your own as module:Class"
    )
    lr: float = Field(0.01, gt=0, description="learning rate")
    schedule: Annotated[Schedule, *SCHEDULES.field()] = Field(
        Constant(), description="the learning rate over rounds: constant, cosine or step"
    )
    momentum: float = Field(0.9, ge=0, lt=1, description="momentum of SGD")
    betas: tuple[Annotated[float, Field(ge=0, lt=1)], Annotated[float, Field(ge=0, lt=1)]] = Field(
        (0.9, 0.999), description="decays of AdamW's two moments"
    )
    weight_decay: float = Field(1e-5, ge=0, description="weight decay")
    max_grad_norm: PositiveFloat | None = Field(
        None, description="greatest norm of a step's gradient; longer ones are scaled"
    )
    clients_per_batch: PositiveInt = Field(
        1,
        description="clients that train side by side in one process, where their network and method can; part of the "
        "result's last bits; auto: a number that fits the network, chosen when the data are loaded",
    )
    pre_aggregate: bool = Field(
        False,
        description="average clients that train side by side before they are sent, where the method needs no more than "
        "their mean; part of the result's last bits",
    )
    threads: PositiveInt = Field(
        1, description="threads of one client, part of the result's last bits; auto: as many as leave no core idle"
    )
    precision: Literal["fp32", "bf16"] = Field("fp32", description="of forward and backward passes; weights stay fp32")
    memory_format: Literal["channels_last", "contiguous"] = Field("channels_last", description="of images")
    deterministic: bool = Field(
        True,
        description="the same bits each time on an accelerator; false is faster there, and the host knows no other",
    )
    accelerator: str | None = Field(
        None, description="the kind of device that makes the bits, if it is not the processor; filled in from device"
    )

    trainable: Patterns = Field(
        (),
        description="names of the parameters and buffers that are trained, with * and ?: nothing else travels; by "
        "default all of them, with an adapter the classifier's",
    )
    adapter: Annotated[Adapter, *ADAPTERS.field()] = Field(
        Adapter(), description="what is trained in place of frozen weights: none or lora"
    )

    @property
    def is_partial(self) -> bool:
        """Whether some of the network is frozen."""
        return bool(self.trainable) or type(self.adapter) is not Adapter

    def rate(self, number: int) -> float:
        """Return the learning rate of a round."""
        return self.lr * self.schedule.factor(number)

    def steps_per_epoch(self, batches: int) -> list[int]:
        """Return how many steps each local epoch has, where a whole one has that many batches."""
        if self.steps is not None:
            whole, rest = divmod(self.steps, batches)
        else:
            whole = int(self.epochs)
            part = self.epochs - whole
            rest = max(1, round(part * batches)) if part else 0
        return [batches] * whole + [rest] * bool(rest)


class Measure(Config):
    """One number about the representations of the test images, recorded under its name."""

    def __call__(self, principal: Principal, classes: ClassSpreads | None) -> float | None:
        """Return the number, or None where there is none.

        `principal` holds count, mean and covariance of all representations, with its eigenvalues and eigenvectors;
        `classes` holds count, mean and spread of each class by its label. It is None where labels are not measured.
        """
        raise NotImplementedError


class ConditionNumber(Measure):
    """The largest eigenvalue of the covariance by the smallest that is more than rounding."""

    def __call__(self, principal: Principal, classes: ClassSpreads | None) -> float | None:  # noqa: ARG002
        """Return λ₁/λᵣ, with r the numerical rank."""
        return float(principal.values[0] / principal.values[principal.rank - 1]) if principal.rank else None


class ExplainedVariance(Measure):
    """The share of the variance along the strongest directions (scikit-learn's explained_variance_ratio_, summed)."""

    components: PositiveInt = Field(10, description="number of directions")

    def __call__(self, principal: Principal, classes: ClassSpreads | None) -> float | None:  # noqa: ARG002
        """Return Σλ₁…λₖ/Σλ."""
        total = float(principal.values.sum())
        return float(principal.values[: self.components].sum()) / total if total > 0 else None


MEASURES: Registry[Measure] = Registry(
    "measure", Measure, {"explained_variance": ExplainedVariance, "condition_number": ConditionNumber}
)

TAKEN = frozenset(each.name for each in fields(Diagnosis))
"""Names of what every diagnosis holds."""


def refuse_taken(measures: dict[str, Measure]) -> dict[str, Measure]:
    """Refuse a name that a diagnosis has for something else."""
    if found := sorted(measures.keys() & TAKEN):
        raise ValueError(f"{found[0]} is measured in any case: give your measure another name")
    return measures


class Evaluation(Config):
    """How models are evaluated on the test images, and what is recorded of local training."""

    every: PositiveInt | Literal["auto"] = Field(
        "auto",
        description="rounds from one evaluation to the next; auto: as few as keep it below a tenth of the training, by "
        "counting images",
    )
    final: PositiveInt = Field(1, description="how many of the last rounds are evaluated whatever the schedule")
    label_measures: Literal["last", "always"] = Field(
        "last",
        description="when to measure also what needs labels (neural collapse, spectra of classes) and RankMe: in the "
        "last round, or with every evaluation",
    )
    measures: Annotated[dict[str, Measure], *MEASURES.fields(), AfterValidator(refuse_taken)] = Field(
        {}, description="further measures of the representations, your own among them as module:Class"
    )
    batch: PositiveInt = Field(500, description="images in one forward pass")
    clients: bool | Literal["last"] = Field(
        False, description="evaluate each client's model, too, before models are averaged; last: in the last round only"
    )
    updates: bool = Field(
        False, description="record the ranks of each layer's change in the clients' updates, and how alike they are"
    )
    flops: bool = Field(
        False, description="count the floating-point operations of a round's local training, in the last round"
    )
    epochs: bool = Field(False, description="record the terms of each client's objective for every local epoch")


CHOICES: dict[str, Registry[Any]] = {
    "training.optimizer": OPTIMIZERS,
    "training.schedule": SCHEDULES,
    "training.adapter": ADAPTERS,
    "evaluation.measures": MEASURES,
}
"""What is chosen by name within the two, by the setting that chooses it."""
