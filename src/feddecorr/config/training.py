"""How clients train, and how models are evaluated."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, PositiveFloat, PositiveInt

from feddecorr.config.measures import MEASURES, Measure, refuse_taken
from feddecorr.config.schedules import SCHEDULES, Constant, Schedule
from feddecorr.core.registry import Config, Registry
from feddecorr.objective.optimizers import OPTIMIZERS, SGD, Optimizer


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


class Evaluation(Config):
    """How models are evaluated on the test images, and what is recorded of local training."""

    every: PositiveInt | Literal["auto"] = Field(
        "auto",
        description="rounds from one evaluation to the next; auto: as few as keep it below a tenth of the training, by "
        "counting images",
    )
    final: PositiveInt = Field(1, description="so many of the last rounds are evaluated whatever the rhythm")
    label_measures: Literal["last", "always"] = Field(
        "last",
        description="when to measure also what labels tell (neural collapse, spectra of classes) and RankMe: in the "
        "last round, or with every evaluation",
    )
    measures: Annotated[dict[str, Measure], *MEASURES.fields(), AfterValidator(refuse_taken)] = Field(
        {}, description="further measures of the representations, your own among them as module:Class"
    )
    batch: PositiveInt = Field(500, description="images in one forward pass")
    clients: bool | Literal["last"] = Field(
        False, description="evaluate each client's model, too, before models are averaged; last: in the last round only"
    )
    epochs: bool = Field(False, description="record the terms of each client's objective for every local epoch")


CHOICES: dict[str, Registry[Any]] = {
    "training.optimizer": OPTIMIZERS,
    "training.schedule": SCHEDULES,
    "evaluation.measures": MEASURES,
}
"""What is chosen by name within the two, by the setting that chooses it."""
