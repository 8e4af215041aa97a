"""See and cure dimensional collapse in heterogeneous federated learning."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from feddecorr.decorrelation import FedDecorrLoss
    from feddecorr.diagnosis.diagnosis import Diagnosis
    from feddecorr.diagnosis.passes import diagnose
    from feddecorr.experiment import Experiment
    from feddecorr.pipeline import resume, run
    from feddecorr.record import Record
    from feddecorr.representation import capture_representations

_HOMES = {
    "Diagnosis": "feddecorr.diagnosis.diagnosis",
    "Experiment": "feddecorr.experiment",
    "FedDecorrLoss": "feddecorr.decorrelation",
    "Record": "feddecorr.record",
    "capture_representations": "feddecorr.representation",
    "diagnose": "feddecorr.diagnosis.passes",
    "resume": "feddecorr.pipeline",
    "run": "feddecorr.pipeline",
}

__all__ = ["Diagnosis", "Experiment", "FedDecorrLoss", "Record", "capture_representations", "diagnose", "resume", "run"]


def __getattr__(name: str) -> Any:
    """Import what is asked for when it is asked for: `import feddecorr` alone loads nothing heavy."""
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'feddecorr' has no attribute '{name}'")
