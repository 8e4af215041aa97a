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
    from feddecorr.collapse.diagnosis import Diagnosis
    from feddecorr.collapse.functions import effective_rank
    from feddecorr.collapse.passes import diagnose
    from feddecorr.collapse.representation import capture_representations
    from feddecorr.config.experiment import Experiment
    from feddecorr.config.options import RunOptions
    from feddecorr.config.settings import parse_settings
    from feddecorr.loss.beta import convert_beta
    from feddecorr.loss.module import FedDecorrLoss
    from feddecorr.report.figures import plot
    from feddecorr.results.frames import load_runs
    from feddecorr.runs.pipeline import ensure, resume, run
    from feddecorr.runs.record import Record

_HOMES = {
    "Diagnosis": "feddecorr.collapse.diagnosis",
    "Experiment": "feddecorr.config.experiment",
    "FedDecorrLoss": "feddecorr.loss.module",
    "Record": "feddecorr.runs.record",
    "RunOptions": "feddecorr.config.options",
    "capture_representations": "feddecorr.collapse.representation",
    "convert_beta": "feddecorr.loss.beta",
    "diagnose": "feddecorr.collapse.passes",
    "effective_rank": "feddecorr.collapse.functions",
    "ensure": "feddecorr.runs.pipeline",
    "load_runs": "feddecorr.results.frames",
    "parse_settings": "feddecorr.config.settings",
    "plot": "feddecorr.report.figures",
    "resume": "feddecorr.runs.pipeline",
    "run": "feddecorr.runs.pipeline",
}

__all__ = [
    "Diagnosis",
    "Experiment",
    "FedDecorrLoss",
    "Record",
    "RunOptions",
    "capture_representations",
    "convert_beta",
    "diagnose",
    "effective_rank",
    "ensure",
    "load_runs",
    "parse_settings",
    "plot",
    "resume",
    "run",
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
