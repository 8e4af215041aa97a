"""The trackers that come with the package: TensorBoard, Weights & Biases and MLflow."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from feddecorr.core.paths import InnerPath
from feddecorr.errors import UserError
from feddecorr.trackers.tracker import Tracker, TrackerEntry, TrackerLog

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter


class TensorBoard(Tracker):
    """TensorBoard: scalars, histograms of spectra, and the settings as text; `tensorboard --logdir RUN` shows them."""

    def open(self, folder: Path, *, name: str, digest: str, number: int) -> TrackerLog:  # noqa: ARG002 - known by its folder
        """Open an event file; steps after the last round that counts are purged, as the run drops them."""
        from torch.utils.tensorboard import SummaryWriter  # noqa: PLC0415 - an extra

        return _TensorBoardLog(SummaryWriter(str(folder), purge_step=number + 1 if number else None))


class _TensorBoardLog(TrackerLog):
    def __init__(self, writer: SummaryWriter) -> None:
        self._writer = writer

    def settings(self, flat: Mapping[str, Any]) -> None:
        """Log them as a Markdown table."""
        rows = "\n".join(f"| {key} | {value} |" for key, value in flat.items())
        self._writer.add_text("settings", f"| setting | value |\n| --- | --- |\n{rows}", 0)

    def entry(self, entry: TrackerEntry) -> None:
        """Log a round as a step."""
        for name, value in entry.scalars.items():
            self._writer.add_scalar(name, value, entry.round)
        for name, values in entry.spectra.items():
            self._writer.add_histogram(name, np.asarray(values), entry.round)
        self._writer.flush()

    def artifacts(self, files: Sequence[Path]) -> None:
        """Log their paths: TensorBoard keeps no files."""
        self._writer.add_text("artifacts", "\n".join(f"- {file.resolve()}" for file in files), 0)

    def close(self) -> None:
        """Close the event file."""
        self._writer.close()


class WeightsAndBiases(Tracker):
    """Weights & Biases: offline, for `wandb sync`, unless WANDB_MODE says otherwise."""

    past = "*run-*"

    def open(self, folder: Path, *, name: str, digest: str, number: int) -> TrackerLog:
        """Begin a part of the run; all parts of an interrupted run have one id."""
        import wandb  # noqa: PLC0415 - an extra

        if (settings := folder / "wandb" / "settings").exists():
            raise UserError(f"{settings} could send the run elsewhere: remove it, and set what you want by variables")
        mode = os.environ.get("WANDB_MODE", "offline")
        run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", "feddecorr"),
            dir=folder,
            name=name,
            id=digest,
            resume="allow" if number and mode != "offline" else None,
            mode=mode,  # type: ignore[arg-type]  # what the user's environment says
            settings=wandb.Settings(silent=True, console="off", save_code=False, disable_git=True),
        )
        return _WandbLog(wandb, run)


class _WandbLog(TrackerLog):
    def __init__(self, library: Any, run: Any) -> None:
        self._library, self._run = library, run

    def settings(self, flat: Mapping[str, Any]) -> None:
        """Log them as the run's config."""
        self._run.config.update(dict(flat))

    def entry(self, entry: TrackerEntry) -> None:
        """Log a round as a step."""
        spectra = {name: self._library.Histogram(list(values)) for name, values in entry.spectra.items()}
        self._run.log({"round": entry.round, **entry.scalars, **spectra}, step=entry.round)

    def artifacts(self, files: Sequence[Path]) -> None:
        """Log them as one artifact."""
        artifact = self._library.Artifact(f"run-{self._run.id}", type="run")
        for file in files:
            artifact.add_file(str(file))
        self._run.log_artifact(artifact)

    def close(self) -> None:
        """Finish this part of the run."""
        self._run.finish()


EXPERIMENT = "feddecorr"
MAX_METRICS, MAX_PARAMS = 1000, 100
"""The most that MLflow takes in one batch."""

JOURNAL_END = bytes.fromhex("d9d505f920a163d7")
"""The end of a journal of SQLite that names another file, which SQLite then removes; ours never do."""


class MLflow(Tracker):
    """MLflow: metrics by step, settings as parameters, spectra as files.

    They go to a database in the run's directory, or to the server that MLFLOW_TRACKING_URI names.
    """

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
            experiment = client.get_experiment_by_name(EXPERIMENT)
            id_ = experiment.experiment_id if experiment else client.create_experiment(EXPERIMENT, files)
            run = client.create_run(id_, run_name=name, tags={"digest": digest})
            known.write(run.info.run_id.encode())
        run_id = known.read().decode()
        place = str(client.get_run(run_id).info.artifact_uri)
        if files and place != f"{files}/{run_id}/artifacts":
            raise UserError(
                f"{folder} would write its files to {place}, which lies outside of it: remove {folder}, and MLflow "
                "receives everything again"
            )
        return _MLflowLog(client, run_id)


class _MLflowLog(TrackerLog):
    def __init__(self, client: Any, run_id: str) -> None:
        self._client, self._id = client, run_id

    def settings(self, flat: Mapping[str, Any]) -> None:
        """Log them as parameters."""
        from mlflow.entities import Param  # noqa: PLC0415 - an extra

        params = [Param(key, str(value)) for key, value in flat.items()]
        for start in range(0, len(params), MAX_PARAMS):
            self._client.log_batch(self._id, params=params[start : start + MAX_PARAMS])

    def entry(self, entry: TrackerEntry) -> None:
        """Log a round as a step, and its spectra as a file: MLflow has no histograms."""
        from mlflow.entities import Metric  # noqa: PLC0415 - an extra

        now = int(time.time() * 1000)
        metrics = [Metric(name, value, now, entry.round) for name, value in entry.scalars.items()]
        for start in range(0, len(metrics), MAX_METRICS):
            self._client.log_batch(self._id, metrics=metrics[start : start + MAX_METRICS])
        if entry.spectra:
            self._client.log_text(self._id, json.dumps(entry.spectra), f"spectra/{entry.round}.json")

    def artifacts(self, files: Sequence[Path]) -> None:
        """Keep copies, and mark the run as finished."""
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
