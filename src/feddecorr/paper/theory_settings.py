"""What can be chosen in the studies of the theory; nothing heavy is imported here, so that --help is quick."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, PositiveInt, model_validator

from feddecorr.core.registry import Config
from feddecorr.core.text import read_list


class Network(Config):
    """A deep linear network, the data that it learns, and how its flow is started and recorded."""

    layers: PositiveInt = Field(2, description="layers below the classifier: the paper's L")
    dim: PositiveInt = Field(20, description="width of each of these layers: the paper's d")
    classes: int = Field(10, ge=2, description="classes: the paper's C")
    inputs: PositiveInt | None = Field(None, description="dimension of the inputs, at least dim; dim by default")
    samples: PositiveInt = Field(200, description="training samples: the paper's N")
    noise: float = Field(
        0.5, ge=0, description="spread of the inputs around the means of their classes, which have length 2"
    )
    start: Literal["aligned", "turned", "random"] = Field(
        "aligned",
        description="aligned: both assumptions hold, along the singular vectors of G; turned: they hold, along "
        "random directions; random: layers balanced, classifier at random",
    )
    scale: float = Field(0.25, gt=0, description="smallest singular value of Π at the start")
    time: float = Field(
        20.0, gt=0, description="length of the flow, as the mean loss counts it (N times the time of the sum)"
    )
    points: int = Field(61, ge=2, description="recorded times")
    seed: int = Field(0, description="of the data and of the start")

    @model_validator(mode="after")
    def _fit_together(self) -> Network:
        if self.input_dim < self.dim:
            raise ValueError(
                f"inputs must be at least dim = {self.dim}, so that Π can have full rank, not {self.inputs}"
            )
        if self.samples < self.classes:
            raise ValueError(f"samples must be at least classes = {self.classes}, not {self.samples}")
        return self

    @property
    def input_dim(self) -> int:
        """The paper's d_in."""
        return self.inputs or self.dim


class Flow(Network):
    """A flow for classes of equal size, and one where some classes are rare."""

    imbalance: float = Field(0.05, ge=0, le=1, description="size of a rare class by that of a frequent one")
    frequent: PositiveInt | None = Field(None, description="number of frequent classes; half of them by default")

    @model_validator(mode="after")
    def _leave_classes(self) -> Flow:
        if self.frequent_classes > self.classes:
            raise ValueError(f"frequent must be at most classes = {self.classes}, not {self.frequent}")
        return self

    @property
    def frequent_classes(self) -> int:
        """How many classes are frequent."""
        return self.frequent or self.classes // 2


class ClassSweep(Network):
    """Flows from all classes being frequent down to one."""

    scale: float = Field(0.01, gt=0, description="smallest singular value of Π at the start")
    time: float = Field(
        200.0, gt=0, description="length of the flow, as the mean loss counts it (N times the time of the sum)"
    )
    imbalance: float = Field(0.0, ge=0, le=1, description="size of a rare class by that of a frequent one")


class Decorrelate(Flow):
    """A flow for imbalanced classes without and with FedDecorr."""

    beta: float = Field(
        6.4,
        ge=0,
        description="weight of the term; in the paper's scale, 6.4 is what 0.1 of the authors' code is at batch 64",
    )
    normalization: Literal["paper", "released"] = Field(
        "paper", description="scale of the term: paper, as in its formula; released, as in the authors' code"
    )


class Alignment(Config):
    """A linear network, trained by plain SGD on real images, with learning rate and batches of the paper."""

    data: str = Field("mnist", description="data set: mnist, digits or any that 'feddecorr list data' names")
    layers: PositiveInt = Field(2, description="layers below the classifier: the paper's L")
    dim: int = Field(64, ge=2, description="width of each of these layers: the paper's d")
    epochs: Annotated[tuple[PositiveInt, ...], BeforeValidator(read_list)] = Field(
        (3, 5, 7, 9), min_length=1, description="epochs after which to look, separated by commas"
    )
    epoch_samples: PositiveInt = Field(
        60_000, description="samples that make an epoch, those of MNIST: smaller data are passed through several times"
    )
    lr: float = Field(0.01, gt=0, description="learning rate of SGD")
    momentum: float = Field(0.0, ge=0, lt=1, description="momentum of SGD; 0.9 in the paper's experiments")
    batch: PositiveInt = Field(64, description="samples in a step")
    weight_decay: float = Field(0.0, ge=0, description="weight decay of SGD")
    seed: int = Field(0, description="of the start and of the batches")
