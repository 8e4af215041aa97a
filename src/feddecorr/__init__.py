"""See and cure dimensional collapse in heterogeneous federated learning."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from feddecorr.experiment import Experiment
    from feddecorr.pipeline import resume, run
    from feddecorr.record import Record

_HOMES = {
    "Experiment": "feddecorr.experiment",
    "Record": "feddecorr.record",
    "resume": "feddecorr.pipeline",
    "run": "feddecorr.pipeline",
}

__all__ = ["Experiment", "Record", "resume", "run"]


def __getattr__(name: str) -> Any:
    """Import what is asked for when it is asked for: `import feddecorr` alone loads nothing heavy."""
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'feddecorr' has no attribute '{name}'")
