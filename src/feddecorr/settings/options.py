"""How an experiment is run: everything that changes no bit of the model."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, PositiveInt

from feddecorr.config.experiment import REGISTRIES as EXPERIMENT_REGISTRIES
from feddecorr.config.training import Evaluation
from feddecorr.core.registry import Config, Registry
from feddecorr.engines.engine import Engine, Serial
from feddecorr.engines.pool import Pool
from feddecorr.flower.engine import Flower
from feddecorr.trackers import TRACKERS, Tracker

ENGINES = Registry("engine", Engine, {"serial": Serial, "pool": Pool, "flower": Flower})
"""Engines by name."""

REGISTRIES: dict[str, Registry[Any]] = {**EXPERIMENT_REGISTRIES, "engine": ENGINES, "trackers": TRACKERS}
"""All that can be chosen by name, by the setting that chooses it."""


class RunOptions(Config):
    """How long and where an experiment is run, how it is evaluated, and what tracks it.

    A run can be continued with other options: the model of a round does not depend on them.
    """

    rounds: PositiveInt = Field(20, description="communication rounds")
    engine: Annotated[Engine, *ENGINES.field()] = Field(Serial(), description="what runs the clients")
    device: str = Field("cpu", description="where clients train and models are evaluated: cpu, cuda, cuda:0, …")
    evaluation: Evaluation = Evaluation()
    trackers: Annotated[dict[str, Tracker], *TRACKERS.fields()] = Field(
        {}, description="experiment trackers that follow the run: none, or any of tensorboard,wandb,mlflow"
    )
    auto_batching: bool = Field(
        False,
        description="choose training.clients_per_batch when the data are loaded: what training.clients_per_batch=auto "
        "asks for",
    )
