"""One experiment: all that decides the bits of a run, as a frozen, validated value."""

from __future__ import annotations

import os
from collections.abc import Mapping
from operator import attrgetter
from typing import Annotated, Any, Literal

from pydantic import Field, PositiveInt, ValidationInfo, model_validator

from feddecorr.config.training import Training
from feddecorr.core import devices
from feddecorr.core.randomness import threads_for
from feddecorr.core.registry import Config, Registry
from feddecorr.data import DATA
from feddecorr.data.builtin import Digits
from feddecorr.data.dataset import Data
from feddecorr.errors import UserError
from feddecorr.methods import METHODS, FedAvg, Method
from feddecorr.models import MLP, MODELS, ConvNet, Custom, Model
from feddecorr.models.partial import ADAPTERS
from feddecorr.objective.optimizers import OPTIMIZERS, SGD
from feddecorr.objective.regularizers import REGULARIZERS, Regularizer
from feddecorr.partition import PARTITIONS
from feddecorr.partition.skew import Dirichlet
from feddecorr.partition.split import Partition
from feddecorr.transforms import TRANSFORMS
from feddecorr.transforms.transform import Transform

REGISTRIES: dict[str, Registry[Any]] = {
    "data": DATA,
    "partition": PARTITIONS,
    "model": MODELS,
    "method": METHODS,
    "regularizers": REGULARIZERS,
    "transforms": TRANSFORMS,
}
"""All of an experiment that can be chosen by name, by the setting that chooses it."""

AUTO = "auto"
"""Asks for a value that fits; it is put in its place before there is an experiment."""


class Experiment(Config):
    """All that decides the bits of a run, and nothing else.

    Two runs are the same experiment if and only if these values are equal. How it is run is said by `RunOptions`.
    """

    data: Annotated[Data, *DATA.field()] = Field(Digits(), description="the data set")
    clients: PositiveInt = Field(10, description="number of clients")
    partition: Annotated[Partition, *PARTITIONS.field()] = Field(
        Dirichlet(), description="which client holds which examples"
    )
    model: Annotated[Model, *MODELS.field()] = Field(ConvNet(), description="the network")
    method: Annotated[Method, *METHODS.field()] = Field(FedAvg(), description="the federated method")
    regularizers: Annotated[dict[str, Regularizer], *REGULARIZERS.fields()] = Field(
        {}, description="terms added to the local objective"
    )
    training: Training = Training()
    participation: float = Field(1.0, gt=0, le=1, description="share of the clients drawn for each round")
    sampling: Literal["fixed", "poisson"] = Field(
        "fixed",
        description="fixed: the same number of clients in each round; poisson: each client on its own, at that rate",
    )
    batchnorm: Literal["average", "pooled", "fixed", "local"] = Field(
        "average",
        description="BatchNorm statistics: averaged and sent, pooled and sent, averaged until they are fixed, or each "
        "client's own",
    )
    fix_after: PositiveInt | None = Field(
        None, description="with batchnorm=fixed, the last round that changes BatchNorm's statistics"
    )
    transforms: Annotated[dict[str, Transform], *TRANSFORMS.fields()] = Field(
        {}, description="changes of the updates before the method gets them"
    )
    missing: Literal["fail", "continue"] = Field(
        "fail", description="when a client's update is missing or refused: end the run, or continue without it"
    )
    minimum_clients: PositiveInt = Field(1, description="updates that a round needs at least, under missing=continue")
    seed: int = Field(
        0, description="any whole number: of the split, the first weights, the batches and the draw of clients"
    )

    @property
    def cohort(self) -> int:
        """The number of clients drawn for each round, under sampling=poisson on average."""
        return cohort_of(self.clients, self.participation)

    @property
    def rate(self) -> float:
        """The probability that a client is drawn for a round."""
        return self.cohort / self.clients

    def trained_images(self, train: int) -> float:
        """Return how many images the clients of a round see, on the average, of all that there are to train on."""
        training, share = self.training, train / self.clients
        seen = share * training.epochs if training.steps is None else training.steps * min(training.batch, share)
        return self.cohort * seen

    def label(self) -> str:
        """Return a short name: data set, method and regularizers."""
        method = "+".join([METHODS.name(self.method), *self.regularizers])
        return f"{DATA.name(self.data)}-{method}".replace(":", "-").replace("/", "-")

    @model_validator(mode="before")
    @classmethod
    def _share_out_cores(cls, settings: Any) -> Any:
        """Put a number in place of `training.threads=auto`: threads are part of the bits, and a run keeps them."""
        training = settings.get("training") if isinstance(settings, Mapping) else None
        if not isinstance(training, Mapping) or training.get("threads") != AUTO:
            return settings
        known = {name: settings.get(name, cls.model_fields[name].default) for name in ("clients", "participation")}
        try:
            cohort = cohort_of(int(known["clients"]), float(known["participation"]))
        except (TypeError, ValueError):  # which the validation of that field reports
            cohort = 1
        return {**settings, "training": {**training, "threads": threads_for(max(1, cohort), os.cpu_count() or 1)}}

    @model_validator(mode="before")
    @classmethod
    def _bring_along(cls, settings: Any, info: ValidationInfo) -> Any:
        """Put in what the method requires, where nothing is said."""
        method = METHODS.chosen(settings.get("method", {}), info.context) if isinstance(settings, Mapping) else None
        for key, value in method.requires.items() if method else ():
            section, _, option = key.partition(".")
            held = settings.get(section, {})
            table = {"name": held} if isinstance(held, str) else held
            if isinstance(table, Mapping):
                settings = {**settings, section: {option: value, **table}}
        return settings

    @model_validator(mode="after")
    def _fit_together(self) -> Experiment:
        for key, value in self.method.requires.items():
            if (said := attrgetter(key)(self)) != value:
                raise ValueError(f"{METHODS.name(self.method)} needs {key}={value}, not {said}")
        if not self.data.images and not isinstance(self.model, MLP | Custom):
            name = MODELS.name(self.model)
            raise ValueError(
                f"{name} is for images: text and tables of features are for model=mlp or a network of your own"
            )
        if self.method.needs_sgd and not isinstance(self.training.optimizer, SGD):
            name, other = METHODS.name(self.method), OPTIMIZERS.name(self.training.optimizer)
            raise ValueError(f"{name} assumes SGD updates: it needs training.optimizer=sgd, not {other}")
        if not ADAPTERS.is_closed(self.training.adapter):
            self.training.adapter.check(METHODS.name(self.method), averages=self.method.averages())
        self._check_transforms()
        if self.sampling == "poisson" and self.minimum_clients > 1:
            raise ValueError(f"minimum_clients={self.minimum_clients} is for sampling=fixed: poisson may draw nobody")
        if self.batchnorm == "fixed" and self.fix_after is None:
            raise ValueError("batchnorm=fixed needs the round after which statistics stay: fix_after=ROUND")
        if self.batchnorm != "fixed" and self.fix_after is not None:
            raise ValueError(f"fix_after={self.fix_after} is for batchnorm=fixed, not for batchnorm={self.batchnorm}")
        return self

    def _check_transforms(self) -> None:
        known = {name: each for name, each in self.transforms.items() if not TRANSFORMS.is_closed(each)}
        for place, (name, transform) in enumerate(known.items()):
            others = list(known.items())
            transform.check_order(dict(others[:place]), dict(others[place + 1 :]))
            if self.sampling == "poisson" and not transform.allows_empty_rounds:
                raise ValueError(f"transforms={name} needs clients in every round: say sampling=fixed, not poisson")
            transform.check(self.cohort)

    def on(self, device: str) -> Experiment:
        """Return the experiment with the kind of device that makes its bits; what was made on another is refused."""
        kind = None if devices.on_host(device) else devices.kind(device)
        if self.training.accelerator not in (None, kind):
            raise UserError(
                f"device={device}: the bits of this experiment are those of device={self.training.accelerator}; "
                "results of different kinds of device are kept apart"
            )
        training = self.training.model_copy(update={"accelerator": kind})
        return self.model_copy(update={"training": training})

    def fixes_statistics(self, number: int) -> bool:
        """Return whether clients of that round normalize by the statistics that the server sends, and keep them."""
        fixed = self.fix_after is not None and number > self.fix_after
        return fixed or self.method.trains(number) == "nothing"

    def rate_of(self, number: int) -> float:
        """Return the learning rate of a round, 0 where the method trains nothing."""
        return 0.0 if self.method.trains(number) == "nothing" else self.training.rate(number)

    def pinned(self, sha256: str | None = None) -> Experiment:
        """Return the experiment with your own data and weights pinned by their digests.

        That of the data is made unless it is given.
        """
        return self.model_copy(update={"data": self.data.pinned(sha256), "model": self.model.pinned()})


def cohort_of(clients: int, participation: float) -> int:
    """Return the number of clients drawn for each round."""
    return max(1, round(participation * clients))
