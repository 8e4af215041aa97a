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

from feddecorr.core.paths import InnerPath
from feddecorr.errors import UserError
from feddecorr.runs.tracker import Entry, Tracker

EXPERIMENT = "feddecorr"
MOST_METRICS, MOST_SETTINGS = 1000, 100
"""So many go into one message."""

JOURNAL_END = bytes.fromhex("d9d505f920a163d7")
"""How a journal of SQLite ends that names another file, which SQLite then removes; ours never do."""


class MLflow(Tracker):
    """Metrics by step, settings as parameters, spectra as files: MLflow has no histograms."""

    def __init__(self, folder: Path, *, name: str, digest: str, number: int) -> None:  # noqa: ARG002 - known by its id
        server = os.environ.get("MLFLOW_TRACKING_URI")
        self._files = None if server else (folder.resolve() / "artifacts").as_uri()
        if not server:
            _refuse_journal(folder / "mlflow.db-journal")
        self._client = MlflowClient(server or f"sqlite:///{folder.resolve() / 'mlflow.db'}")
        known = InnerPath(folder) / "run_id"
        if not known.exists():
            run = self._client.create_run(self._experiment(), run_name=name, tags={"digest": digest})
            known.write(run.info.run_id.encode())
        self._id = known.read().decode()
        files = str(self._client.get_run(self._id).info.artifact_uri)
        if self._files and files != f"{self._files}/{self._id}/artifacts":
            raise UserError(
                f"{folder} would write its files to {files}, which lies outside of it: remove {folder}, and MLflow is "
                "told everything again"
            )

    def _experiment(self) -> str:
        if found := self._client.get_experiment_by_name(EXPERIMENT):
            return str(found.experiment_id)
        return str(self._client.create_experiment(EXPERIMENT, artifact_location=self._files))

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


def _refuse_journal(file: Path) -> None:
    if file.exists() and file.stat().st_size >= len(JOURNAL_END):
        with file.open("rb") as journal:
            journal.seek(-len(JOURNAL_END), os.SEEK_END)
            if journal.read() == JOURNAL_END:
                raise UserError(f"{file} names a file outside of the run, which SQLite would remove: remove {file}")
