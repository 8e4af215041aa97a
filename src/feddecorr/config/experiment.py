"""One experiment: a frozen, validated value, the same in TOML, in Python and on the command line."""

from __future__ import annotations

import hashlib
import json
import os
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, PositiveInt, model_validator

from feddecorr.config.training import AUTO, Evaluation, Training
from feddecorr.core.parsing import read_list
from feddecorr.core.registry import Config, Registry
from feddecorr.core.threads import threads_for
from feddecorr.data import DATA, Data, Digits
from feddecorr.engines.table import ENGINES, Engine, Serial
from feddecorr.methods import METHODS, FedAvg, Method
from feddecorr.models import MLP, MODELS, ConvNet, Custom, Model
from feddecorr.objective.optimizers import OPTIMIZERS, SGD
from feddecorr.objective.regularizers import REGULARIZERS, Regularizer
from feddecorr.partition import PARTITIONS, Dirichlet, Partition
from feddecorr.trackers import TrackerName
from feddecorr.transforms import TRANSFORMS, Transform

REGISTRIES: dict[str, Registry[Any]] = {
    "data": DATA,
    "partition": PARTITIONS,
    "model": MODELS,
    "method": METHODS,
    "regularizers": REGULARIZERS,
    "transforms": TRANSFORMS,
    "engine": ENGINES,
}
"""All that can be chosen by name, by the setting that chooses it."""


class Experiment(Config):
    """All that decides the bits of a run, and the engine, which does not."""

    data: Annotated[Data, *DATA.field()] = Field(Digits(), description="what is learned")
    clients: PositiveInt = Field(10, description="number of clients")
    partition: Annotated[Partition, *PARTITIONS.field()] = Field(Dirichlet(), description="who holds what")
    model: Annotated[Model, *MODELS.field()] = Field(ConvNet(), description="the network")
    method: Annotated[Method, *METHODS.field()] = Field(FedAvg(), description="the federated method")
    regularizers: Annotated[dict[str, Regularizer], *REGULARIZERS.fields()] = Field(
        {}, description="terms added to the local objective"
    )
    training: Training = Training()
    rounds: PositiveInt = Field(20, description="communication rounds")
    participation: float = Field(1.0, gt=0, le=1, description="share of the clients drawn for each round")
    sampling: Literal["fixed", "poisson"] = Field(
        "fixed",
        description="fixed: the same number of clients in each round; poisson: each client by itself, at that rate",
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
        "fail", description="when a client's update is missing or refused: end the run, or go on without it"
    )
    minimum_clients: PositiveInt = Field(1, description="updates that a round needs at least, under missing=continue")
    evaluation: Evaluation = Evaluation()
    engine: Annotated[Engine, *ENGINES.field()] = Field(Serial(), description="who runs the clients")
    trackers: Annotated[tuple[TrackerName, ...], BeforeValidator(read_list)] = Field(
        (), description="who follows the run while it goes on: none or any of tensorboard,wandb,mlflow"
    )
    seed: int = Field(0, description="of the split, the first weights, the batches and the draw of clients")

    @property
    def cohort(self) -> int:
        """The number of clients drawn for each round, under sampling=poisson on average."""
        return max(1, round(self.participation * self.clients))

    @property
    def rate(self) -> float:
        """The probability that a client is drawn for a round."""
        return self.cohort / self.clients

    def label(self) -> str:
        """Return a short name: what is learned, by which method, with which regularizers."""
        method = "+".join([METHODS.name(self.method), *self.regularizers])
        return f"{DATA.name(self.data)}-{method}".replace(":", "-").replace("/", "-")

    @model_validator(mode="after")
    def _share_out_cores(self) -> Experiment:
        """Pin `training.threads=auto` to what it means here: threads are part of the bits, and a run keeps them."""
        if self.training.threads == AUTO:
            threads = threads_for(self.cohort, os.cpu_count() or 1)
            self.__dict__["training"] = self.training.model_copy(update={"threads": threads})  # not valid before
        return self

    @model_validator(mode="after")
    def _fit_together(self) -> Experiment:
        if not self.data.images and not isinstance(self.model, MLP | Custom):
            name = MODELS.name(self.model)
            raise ValueError(f"{name} is for images: tables of features are for model=mlp or a network of your own")
        if self.method.needs_sgd and not isinstance(self.training.optimizer, SGD):
            name, other = METHODS.name(self.method), OPTIMIZERS.name(self.training.optimizer)
            raise ValueError(f"{name} assumes SGD updates: it needs training.optimizer=sgd, not {other}")
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

    def fixes_statistics(self, number: int) -> bool:
        """Tell whether clients of that round normalize by the statistics that they are sent, and leave them alone."""
        return self.fix_after is not None and number > self.fix_after

    def pinned(self, sha256: str | None = None) -> Experiment:
        """Return the experiment with data and weights of one's own pinned by their digests.

        That of the data is made unless it is given.
        """
        return self.model_copy(update={"data": self.data.pinned(sha256), "model": self.model.pinned()})

    def identity(self) -> dict[str, Any]:
        """Return all that decides the bits of a run.

        That is everything but who runs the clients, for how many rounds, how often models are evaluated, and who
        follows the run. Data, splits and weights of one's own that are pinned by their content are the same wherever
        they lie.
        """
        settings = self.to_dict()
        for name in ("engine", "rounds", "trackers"):
            del settings[name]
        for name in ("every", "final", "label_measures", "measures"):
            del settings["evaluation"][name]
        if self.sampling == "fixed":  # as it was before there was a choice
            del settings["sampling"]
        for table in (settings["data"], settings["partition"]):
            if table.get("sha256"):
                del table["path"]
        model = settings["model"]  # of which a network that was only looked at may have neither
        weights = model.get("weights")
        if weights is None or model.get("sha256"):
            model.pop("weights", None)
        if weights is None:
            model.pop("sha256", None)
        return settings

    def digest(self) -> str:
        """Return the address of the run: 32 letters that differ between experiments whose results differ."""
        return hashlib.sha256(json.dumps(self.identity(), sort_keys=True).encode()).hexdigest()[:32]
