"""MLflow: a database in the run's directory, or the server that MLFLOW_TRACKING_URI names."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from feddecorr.core.paths import InnerPath
from feddecorr.errors import UserError
from feddecorr.trackers.tracker import Tracker, TrackerEntry, TrackerLog

EXPERIMENT = "feddecorr"
MOST_METRICS, MOST_SETTINGS = 1000, 100
"""The most that go into one message."""

JOURNAL_END = bytes.fromhex("d9d505f920a163d7")
"""How a journal of SQLite ends that names another file, which SQLite then removes; ours never do."""


class MLflow(Tracker):
    """MLflow: metrics by step, settings as parameters, spectra as files."""

    def open(self, folder: Path, *, name: str, digest: str, number: int) -> TrackerLog:  # noqa: ARG002 - known by its id
        """Find the run in the database, or create it."""
        from mlflow.tracking import MlflowClient  # noqa: PLC0415 - an extra

        server = os.environ.get("MLFLOW_TRACKING_URI")
        files = None if server else (folder.resolve() / "artifacts").as_uri()
        if not server:
            _refuse_journal(folder / "mlflow.db-journal")
        client = MlflowClient(server or f"sqlite:///{folder.resolve() / 'mlflow.db'}")
        known = InnerPath(folder) / "run_id"
        if not known.exists():
            run = client.create_run(_experiment(client, files), run_name=name, tags={"digest": digest})
            known.write(run.info.run_id.encode())
        run_id = known.read().decode()
        place = str(client.get_run(run_id).info.artifact_uri)
        if files and place != f"{files}/{run_id}/artifacts":
            raise UserError(
                f"{folder} would write its files to {place}, which lies outside of it: remove {folder}, and MLflow "
                "receives everything again"
            )
        return _Logged(client, run_id)


class _Logged(TrackerLog):
    def __init__(self, client: Any, run_id: str) -> None:
        self._client, self._id = client, run_id

    def settings(self, flat: Mapping[str, Any]) -> None:
        """Log them as parameters."""
        from mlflow.entities import Param  # noqa: PLC0415 - an extra

        params = [Param(key, str(value)) for key, value in flat.items()]
        for start in range(0, len(params), MOST_SETTINGS):
            self._client.log_batch(self._id, params=params[start : start + MOST_SETTINGS])

    def entry(self, entry: TrackerEntry) -> None:
        """Log a round as a step, and its spectra as a file: MLflow has no histograms."""
        from mlflow.entities import Metric  # noqa: PLC0415 - an extra

        now = int(time.time() * 1000)
        metrics = [Metric(name, value, now, entry.round) for name, value in entry.scalars.items()]
        for start in range(0, len(metrics), MOST_METRICS):
            self._client.log_batch(self._id, metrics=metrics[start : start + MOST_METRICS])
        if entry.spectra:
            self._client.log_text(self._id, json.dumps(entry.spectra), f"spectra/{entry.round}.json")

    def artifacts(self, files: Sequence[Path]) -> None:
        """Keep copies, and mark the run as finished."""
        for file in files:
            self._client.log_artifact(self._id, str(file))
        self._client.set_terminated(self._id)

    def close(self) -> None:
        """Do nothing: all is written already."""


def _experiment(client: Any, files: str | None) -> str:
    if found := client.get_experiment_by_name(EXPERIMENT):
        return str(found.experiment_id)
    return str(client.create_experiment(EXPERIMENT, artifact_location=files))


def _refuse_journal(file: Path) -> None:
    if file.exists() and file.stat().st_size >= len(JOURNAL_END):
        with file.open("rb") as journal:
            journal.seek(-len(JOURNAL_END), os.SEEK_END)
            if journal.read() == JOURNAL_END:
                raise UserError(f"{file} names a file outside of the run, which SQLite would remove: remove {file}")
