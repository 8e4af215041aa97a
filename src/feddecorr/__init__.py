"""See and cure dimensional collapse in heterogeneous federated learning."""

import sys

# `python -m feddecorr` looks for modules in the working directory first, which may be a stranger's. So it is left out
# here, before any other import (`from __future__` is one, too), unless this very package lies in it.
if (
    sys.argv[:1] == ["-m"]
    and sys.orig_argv[-len(sys.argv)].removeprefix("-m") == __name__
    and not sys.flags.safe_path
    and sys.path[0] != __path__[0][: -len(__name__) - 1]
):
    del sys.path[0]

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from feddecorr.collapse.diagnosis import ClassSpreads, Diagnosis, diagnose
    from feddecorr.collapse.functions import (
        alignment,
        alpha_req,
        cdnv,
        cka,
        dead_features,
        effective_rank,
        lidar,
        neural_collapse,
        participation_ratio,
        rankme,
        singular_values,
        stable_rank,
        uniformity,
    )
    from feddecorr.collapse.measures import Principal
    from feddecorr.collapse.metric import CollapseMetric
    from feddecorr.collapse.probe import ProbeAccuracy, probe
    from feddecorr.collapse.representation import capture_representations
    from feddecorr.collapse.statistics import Batch, Statistics
    from feddecorr.config.experiment import Experiment
    from feddecorr.config.training import Measure
    from feddecorr.core.client_memory import Memories
    from feddecorr.core.evidence import Evidence
    from feddecorr.core.messages import Broadcast, Failure, RoundInfo, Server, Update, failure, from_bytes, to_bytes
    from feddecorr.core.randomness import frozen_stream, generator, seeded
    from feddecorr.core.states import Mean, State, extrapolate, square_distance
    from feddecorr.data.dataset import Data, Dataset, Images, PixelSums, UserData
    from feddecorr.engines.engine import ClientRunner, Engine
    from feddecorr.errors import RunError, UserError
    from feddecorr.loss.beta import LossScale, convert_beta
    from feddecorr.loss.module import DyingFeatures, FedDecorrLoss
    from feddecorr.methods.method import Method, mean_weights
    from feddecorr.models.model import Model, Shape
    from feddecorr.objective.optimizers import Optimizer
    from feddecorr.objective.reference_models import Reference, RoundReference
    from feddecorr.objective.regularizers import Regularizer
    from feddecorr.objective.terms import ClientContext, Pass, Term, Trained, cross_entropy, linear, proximal
    from feddecorr.partition.split import Indices, Partition, Parts
    from feddecorr.report.figures import plot
    from feddecorr.results.tables import load_runs
    from feddecorr.runs.directory import RunDirectory
    from feddecorr.runs.pipeline import ensure, resume, run
    from feddecorr.runs.record import Record
    from feddecorr.server.federation import Connection, Evaluating, Federation, Roster, RunClients, Simulation
    from feddecorr.settings.flat import parse_settings
    from feddecorr.settings.options import RunOptions
    from feddecorr.trackers.tracker import Tracker, TrackerEntry, TrackerLog
    from feddecorr.training.client import Client
    from feddecorr.training.shards import Shard, Shards
    from feddecorr.training.task import Task
    from feddecorr.transforms.transform import Transform

_HOMES = {
    "Batch": "feddecorr.collapse.statistics",
    "Broadcast": "feddecorr.core.messages",
    "ClassSpreads": "feddecorr.collapse.diagnosis",
    "Client": "feddecorr.training.client",
    "ClientContext": "feddecorr.objective.terms",
    "CollapseMetric": "feddecorr.collapse.metric",
    "Connection": "feddecorr.server.federation",
    "Data": "feddecorr.data.dataset",
    "Dataset": "feddecorr.data.dataset",
    "Diagnosis": "feddecorr.collapse.diagnosis",
    "DyingFeatures": "feddecorr.loss.module",
    "Engine": "feddecorr.engines.engine",
    "Evaluating": "feddecorr.server.federation",
    "Evidence": "feddecorr.core.evidence",
    "Experiment": "feddecorr.config.experiment",
    "Failure": "feddecorr.core.messages",
    "FedDecorrLoss": "feddecorr.loss.module",
    "Federation": "feddecorr.server.federation",
    "Images": "feddecorr.data.dataset",
    "Indices": "feddecorr.partition.split",
    "LossScale": "feddecorr.loss.beta",
    "Mean": "feddecorr.core.states",
    "Measure": "feddecorr.config.training",
    "Memories": "feddecorr.core.client_memory",
    "Method": "feddecorr.methods.method",
    "Model": "feddecorr.models.model",
    "Optimizer": "feddecorr.objective.optimizers",
    "UserData": "feddecorr.data.dataset",
    "Partition": "feddecorr.partition.split",
    "Parts": "feddecorr.partition.split",
    "Pass": "feddecorr.objective.terms",
    "PixelSums": "feddecorr.data.dataset",
    "Principal": "feddecorr.collapse.measures",
    "ProbeAccuracy": "feddecorr.collapse.probe",
    "Record": "feddecorr.runs.record",
    "Reference": "feddecorr.objective.reference_models",
    "Regularizer": "feddecorr.objective.regularizers",
    "Roster": "feddecorr.server.federation",
    "RoundInfo": "feddecorr.core.messages",
    "RoundReference": "feddecorr.objective.reference_models",
    "RunClients": "feddecorr.server.federation",
    "RunDirectory": "feddecorr.runs.directory",
    "RunError": "feddecorr.errors",
    "RunOptions": "feddecorr.settings.options",
    "Server": "feddecorr.core.messages",
    "Shape": "feddecorr.models.model",
    "Shard": "feddecorr.training.shards",
    "Shards": "feddecorr.training.shards",
    "Simulation": "feddecorr.server.federation",
    "ClientRunner": "feddecorr.engines.engine",
    "State": "feddecorr.core.states",
    "Statistics": "feddecorr.collapse.statistics",
    "Task": "feddecorr.training.task",
    "Term": "feddecorr.objective.terms",
    "Tracker": "feddecorr.trackers.tracker",
    "TrackerEntry": "feddecorr.trackers.tracker",
    "TrackerLog": "feddecorr.trackers.tracker",
    "Trained": "feddecorr.objective.terms",
    "Transform": "feddecorr.transforms.transform",
    "Update": "feddecorr.core.messages",
    "UserError": "feddecorr.errors",
    "alignment": "feddecorr.collapse.functions",
    "alpha_req": "feddecorr.collapse.functions",
    "capture_representations": "feddecorr.collapse.representation",
    "cdnv": "feddecorr.collapse.functions",
    "cka": "feddecorr.collapse.functions",
    "convert_beta": "feddecorr.loss.beta",
    "cross_entropy": "feddecorr.objective.terms",
    "dead_features": "feddecorr.collapse.functions",
    "diagnose": "feddecorr.collapse.diagnosis",
    "effective_rank": "feddecorr.collapse.functions",
    "ensure": "feddecorr.runs.pipeline",
    "extrapolate": "feddecorr.core.states",
    "failure": "feddecorr.core.messages",
    "from_bytes": "feddecorr.core.messages",
    "frozen_stream": "feddecorr.core.randomness",
    "generator": "feddecorr.core.randomness",
    "lidar": "feddecorr.collapse.functions",
    "linear": "feddecorr.objective.terms",
    "load_runs": "feddecorr.results.tables",
    "mean_weights": "feddecorr.methods.method",
    "neural_collapse": "feddecorr.collapse.functions",
    "parse_settings": "feddecorr.settings.flat",
    "participation_ratio": "feddecorr.collapse.functions",
    "plot": "feddecorr.report.figures",
    "probe": "feddecorr.collapse.probe",
    "proximal": "feddecorr.objective.terms",
    "rankme": "feddecorr.collapse.functions",
    "resume": "feddecorr.runs.pipeline",
    "run": "feddecorr.runs.pipeline",
    "seeded": "feddecorr.core.randomness",
    "singular_values": "feddecorr.collapse.functions",
    "square_distance": "feddecorr.core.states",
    "stable_rank": "feddecorr.collapse.functions",
    "to_bytes": "feddecorr.core.messages",
    "uniformity": "feddecorr.collapse.functions",
}
"""All that may be imported from here, and where it lives."""

__all__ = [
    "Batch",
    "Broadcast",
    "ClassSpreads",
    "Client",
    "ClientContext",
    "ClientRunner",
    "CollapseMetric",
    "Connection",
    "Data",
    "Dataset",
    "Diagnosis",
    "DyingFeatures",
    "Engine",
    "Evaluating",
    "Evidence",
    "Experiment",
    "Failure",
    "FedDecorrLoss",
    "Federation",
    "Images",
    "Indices",
    "LossScale",
    "Mean",
    "Measure",
    "Memories",
    "Method",
    "Model",
    "Optimizer",
    "Partition",
    "Parts",
    "Pass",
    "PixelSums",
    "Principal",
    "ProbeAccuracy",
    "Record",
    "Reference",
    "Regularizer",
    "Roster",
    "RoundInfo",
    "RoundReference",
    "RunClients",
    "RunDirectory",
    "RunError",
    "RunOptions",
    "Server",
    "Shape",
    "Shard",
    "Shards",
    "Simulation",
    "State",
    "Statistics",
    "Task",
    "Term",
    "Tracker",
    "TrackerEntry",
    "TrackerLog",
    "Trained",
    "Transform",
    "Update",
    "UserData",
    "UserError",
    "alignment",
    "alpha_req",
    "capture_representations",
    "cdnv",
    "cka",
    "convert_beta",
    "cross_entropy",
    "dead_features",
    "diagnose",
    "effective_rank",
    "ensure",
    "extrapolate",
    "failure",
    "from_bytes",
    "frozen_stream",
    "generator",
    "lidar",
    "linear",
    "load_runs",
    "mean_weights",
    "neural_collapse",
    "parse_settings",
    "participation_ratio",
    "plot",
    "probe",
    "proximal",
    "rankme",
    "resume",
    "run",
    "seeded",
    "singular_values",
    "square_distance",
    "stable_rank",
    "to_bytes",
    "uniformity",
]


_MISSING = "needs more than PyTorch: pip install 'feddecorr[simulation]'"


def __getattr__(name: str) -> Any:
    """Import what is asked for when it is asked for: `import feddecorr` alone loads nothing heavy."""
    if name not in _HOMES:
        raise AttributeError(f"module 'feddecorr' has no attribute '{name}'")
    try:
        return getattr(import_module(_HOMES[name]), name)
    except ModuleNotFoundError as error:
        raise ImportError(f"feddecorr.{name} {_MISSING} ({error})") from error
