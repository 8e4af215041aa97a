"""One experiment: a frozen, validated value, the same in TOML, in Python and on the command line."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, PlainSerializer, PositiveInt

from feddecorr.data import DATA, Data, Digits
from feddecorr.engines.table import ENGINES, Engine, Serial
from feddecorr.methods import METHODS, FedAvg, Method
from feddecorr.models import MODELS, ConvNet, Model
from feddecorr.partition import PARTITIONS, Dirichlet, Partition
from feddecorr.regularizers import REGULARIZERS, Regularizer
from feddecorr.settings.kinds import Family, Kind
from feddecorr.settings.training import Evaluation, Training
from feddecorr.settings.words import read_list

FAMILIES: dict[str, Family[Any]] = {
    "data": DATA,
    "partition": PARTITIONS,
    "model": MODELS,
    "method": METHODS,
    "regularizers": REGULARIZERS,
    "engine": ENGINES,
}
"""All that can be chosen by name, by the setting that chooses it."""


def _parse_regularizers(value: object) -> object:
    if isinstance(value, str | list | tuple):
        value = {str(name): {} for name in read_list(value)}
    if not isinstance(value, Mapping):
        raise ValueError(f"regularizers are names or a table of options by name, not {value!r}")
    return {name: _parse_regularizer(name, options) for name, options in value.items()}


def _parse_regularizer(name: str, options: object) -> Regularizer:
    if isinstance(options, Regularizer):
        return options
    if not isinstance(options, Mapping):
        raise ValueError(f"{name} takes a table of options, not {options!r}")
    return REGULARIZERS.parse({"name": name, **options})


def _dump_regularizers(regularizers: Mapping[str, Regularizer]) -> dict[str, Any]:
    return {name: regularizer.to_dict() for name, regularizer in regularizers.items()}


class Experiment(Kind):
    """All that decides the bits of a run, and the engine, which does not."""

    data: Annotated[Data, *DATA.field()] = Field(Digits(), description="what is learned")
    clients: PositiveInt = Field(10, description="number of clients")
    partition: Annotated[Partition, *PARTITIONS.field()] = Field(Dirichlet(), description="who holds what")
    model: Annotated[Model, *MODELS.field()] = Field(ConvNet(), description="the network")
    method: Annotated[Method, *METHODS.field()] = Field(FedAvg(), description="the federated method")
    regularizers: Annotated[
        dict[str, Regularizer], BeforeValidator(_parse_regularizers), PlainSerializer(_dump_regularizers)
    ] = Field({}, description="terms added to the local objective")
    training: Training = Training()
    rounds: PositiveInt = Field(20, description="communication rounds")
    participation: float = Field(1.0, gt=0, le=1, description="share of the clients drawn for each round")
    buffers: Literal["average", "local"] = Field(
        "average", description="BatchNorm statistics: averaged and sent, or kept by each client"
    )
    evaluation: Evaluation = Evaluation()
    engine: Annotated[Engine, *ENGINES.field()] = Field(Serial(), description="who runs the clients")
    seed: int = Field(0, description="of the split, the first weights, the batches and the draw of clients")

    def label(self) -> str:
        """Return a short name: what is learned, by which method, with which regularizers."""
        method = "+".join([METHODS.name(self.method), *self.regularizers])
        return f"{DATA.name(self.data)}-{method}".replace(":", "-").replace("/", "-")

    def digest(self) -> str:
        """Return eight letters that differ between experiments whose results differ."""
        settings = self.to_dict()
        del settings["engine"]
        return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:8]
