"""Weights & Biases, offline: a run in the run's directory, which `wandb sync` sends when you want it to."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from feddecorr.errors import UserError
from feddecorr.trackers.tracker import Tracker, TrackerEntry, TrackerLog


class WeightsAndBiases(Tracker):
    """Weights & Biases: offline, unless WANDB_MODE says otherwise."""

    past = "*run-*"

    def open(self, folder: Path, *, name: str, digest: str, number: int) -> TrackerLog:
        """Begin a part of the run; several parts of an interrupted run have one id."""
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
        return _Part(wandb, run)


class _Part(TrackerLog):
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
        """Keep them as one artifact."""
        artifact = self._library.Artifact(f"run-{self._run.id}", type="run")
        for file in files:
            artifact.add_file(str(file))
        self._run.log_artifact(artifact)

    def close(self) -> None:
        """End this part of the run."""
        self._run.finish()
