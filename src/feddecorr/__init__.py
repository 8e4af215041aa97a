"""See and cure dimensional collapse in heterogeneous federated learning."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from feddecorr.beta import convert_beta
    from feddecorr.collapse.diagnosis import Diagnosis
    from feddecorr.collapse.passes import diagnose
    from feddecorr.loss_module import FedDecorrLoss
    from feddecorr.representation import capture_representations
    from feddecorr.runs.pipeline import ensure, resume, run
    from feddecorr.runs.record import Record
    from feddecorr.settings.experiment import Experiment

_HOMES = {
    "Diagnosis": "feddecorr.collapse.diagnosis",
    "Experiment": "feddecorr.settings.experiment",
    "FedDecorrLoss": "feddecorr.loss_module",
    "Record": "feddecorr.runs.record",
    "capture_representations": "feddecorr.representation",
    "convert_beta": "feddecorr.beta",
    "diagnose": "feddecorr.collapse.passes",
    "ensure": "feddecorr.runs.pipeline",
    "resume": "feddecorr.runs.pipeline",
    "run": "feddecorr.runs.pipeline",
}

__all__ = [
    "Diagnosis",
    "Experiment",
    "FedDecorrLoss",
    "Record",
    "capture_representations",
    "convert_beta",
    "diagnose",
    "ensure",
    "resume",
    "run",
]


def __getattr__(name: str) -> Any:
    """Import what is asked for when it is asked for: `import feddecorr` alone loads nothing heavy."""
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'feddecorr' has no attribute '{name}'")
