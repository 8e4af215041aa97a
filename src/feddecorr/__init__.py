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
    from feddecorr.collapse.updates import UpdateDiagnosis, diagnose_update
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

_OFFERED = {
    "feddecorr.collapse.diagnosis": "ClassSpreads Diagnosis diagnose",
    "feddecorr.collapse.functions": (
        "alignment alpha_req cdnv cka dead_features effective_rank lidar neural_collapse participation_ratio "
        "rankme singular_values stable_rank uniformity"
    ),
    "feddecorr.collapse.measures": "Principal",
    "feddecorr.collapse.metric": "CollapseMetric",
    "feddecorr.collapse.probe": "ProbeAccuracy probe",
    "feddecorr.collapse.representation": "capture_representations",
    "feddecorr.collapse.statistics": "Batch Statistics",
    "feddecorr.collapse.updates": "UpdateDiagnosis diagnose_update",
    "feddecorr.config.experiment": "Experiment",
    "feddecorr.config.training": "Measure",
    "feddecorr.core.client_memory": "Memories",
    "feddecorr.core.evidence": "Evidence",
    "feddecorr.core.messages": "Broadcast Failure RoundInfo Server Update failure from_bytes to_bytes",
    "feddecorr.core.randomness": "frozen_stream generator seeded",
    "feddecorr.core.states": "Mean State extrapolate square_distance",
    "feddecorr.data.dataset": "Data Dataset Images PixelSums UserData",
    "feddecorr.engines.engine": "ClientRunner Engine",
    "feddecorr.errors": "RunError UserError",
    "feddecorr.loss.beta": "LossScale convert_beta",
    "feddecorr.loss.module": "DyingFeatures FedDecorrLoss",
    "feddecorr.methods.method": "Method mean_weights",
    "feddecorr.models.model": "Model Shape",
    "feddecorr.objective.optimizers": "Optimizer",
    "feddecorr.objective.reference_models": "Reference RoundReference",
    "feddecorr.objective.regularizers": "Regularizer",
    "feddecorr.objective.terms": "ClientContext Pass Term Trained cross_entropy linear proximal",
    "feddecorr.partition.split": "Indices Partition Parts",
    "feddecorr.report.figures": "plot",
    "feddecorr.results.tables": "load_runs",
    "feddecorr.runs.directory": "RunDirectory",
    "feddecorr.runs.pipeline": "ensure resume run",
    "feddecorr.runs.record": "Record",
    "feddecorr.server.federation": "Connection Evaluating Federation Roster RunClients Simulation",
    "feddecorr.settings.flat": "parse_settings",
    "feddecorr.settings.options": "RunOptions",
    "feddecorr.trackers.tracker": "Tracker TrackerEntry TrackerLog",
    "feddecorr.training.client": "Client",
    "feddecorr.training.shards": "Shard Shards",
    "feddecorr.training.task": "Task",
    "feddecorr.transforms.transform": "Transform",
}
"""All that may be imported from here, by where it lives."""

_HOMES = {name: module for module, names in _OFFERED.items() for name in names.split()}

__all__ = [
    "Batch", "Broadcast", "ClassSpreads", "Client", "ClientContext", "ClientRunner", "CollapseMetric", "Connection",
    "Data", "Dataset", "Diagnosis", "DyingFeatures", "Engine", "Evaluating", "Evidence", "Experiment", "Failure",
    "FedDecorrLoss", "Federation", "Images", "Indices", "LossScale", "Mean", "Measure", "Memories", "Method",
    "Model", "Optimizer", "Partition", "Parts", "Pass", "PixelSums", "Principal", "ProbeAccuracy", "Record",
    "Reference", "Regularizer", "Roster", "RoundInfo", "RoundReference", "RunClients", "RunDirectory", "RunError",
    "RunOptions", "Server", "Shape", "Shard", "Shards", "Simulation", "State", "Statistics", "Task", "Term",
    "Tracker", "TrackerEntry", "TrackerLog", "Trained", "Transform", "Update", "UpdateDiagnosis", "UserData",
    "UserError", "alignment", "alpha_req", "capture_representations", "cdnv", "cka", "convert_beta",
    "cross_entropy", "dead_features", "diagnose", "diagnose_update", "effective_rank", "ensure", "extrapolate",
    "failure", "from_bytes", "frozen_stream", "generator", "lidar", "linear", "load_runs", "mean_weights",
    "neural_collapse", "parse_settings", "participation_ratio", "plot", "probe", "proximal", "rankme", "resume",
    "run", "seeded", "singular_values", "square_distance", "stable_rank", "to_bytes", "uniformity",
]  # fmt: skip

_MISSING = "needs more than PyTorch: pip install 'feddecorr[simulation]'"


def __getattr__(name: str) -> Any:
    """Import what is asked for when it is asked for: `import feddecorr` alone loads nothing heavy."""
    if name not in _HOMES:
        raise AttributeError(f"module 'feddecorr' has no attribute '{name}'")
    try:
        return getattr(import_module(_HOMES[name]), name)
    except ModuleNotFoundError as error:
        raise ImportError(f"feddecorr.{name} {_MISSING} ({error})") from error
