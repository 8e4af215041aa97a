"""MLflow: a database in the run's directory, or the server that MLFLOW_TRACKING_URI names."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mlflow.entities import Metric, Param
from mlflow.tracking import MlflowClient

from feddecorr.files import write_bytes
from feddecorr.trackers.tracker import Entry, Tracker

EXPERIMENT = "feddecorr"
MOST_METRICS, MOST_SETTINGS = 1000, 100
"""So many go into one message."""


class MLflow(Tracker):
    """Metrics by step, settings as parameters, spectra as files: MLflow has no histograms."""

    def __init__(self, folder: Path, *, name: str, digest: str, number: int) -> None:  # noqa: ARG002 - known by its id
        self._folder = folder
        place = os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{folder.resolve() / 'mlflow.db'}"
        self._client = MlflowClient(place)
        known = folder / "run_id"
        if not known.exists():
            run = self._client.create_run(self._experiment(), run_name=name, tags={"digest": digest})
            write_bytes(known, run.info.run_id.encode())
        self._id = known.read_text()

    def _experiment(self) -> str:
        if found := self._client.get_experiment_by_name(EXPERIMENT):
            return str(found.experiment_id)
        own = None if "MLFLOW_TRACKING_URI" in os.environ else (self._folder.resolve() / "artifacts").as_uri()
        return str(self._client.create_experiment(EXPERIMENT, artifact_location=own))

    def settings(self, flat: Mapping[str, Any]) -> None:
        """Note them as parameters."""
        params = [Param(key, str(value)) for key, value in flat.items()]
        for start in range(0, len(params), MOST_SETTINGS):
            self._client.log_batch(self._id, params=params[start : start + MOST_SETTINGS])

    def entry(self, entry: Entry) -> None:
        """Note a round as a step, and its spectra as a file."""
        now = int(time.time() * 1000)
        metrics = [Metric(name, value, now, entry.round) for name, value in entry.scalars.items()]
        for start in range(0, len(metrics), MOST_METRICS):
            self._client.log_batch(self._id, metrics=metrics[start : start + MOST_METRICS])
        if entry.spectra:
            self._client.log_text(self._id, json.dumps(entry.spectra), f"spectra/{entry.round}.json")

    def artifacts(self, files: Sequence[Path]) -> None:
        """Keep copies, and call the run finished."""
        for file in files:
            self._client.log_artifact(self._id, str(file))
        self._client.set_terminated(self._id)

    def close(self) -> None:
        """Do nothing: all is written already."""
