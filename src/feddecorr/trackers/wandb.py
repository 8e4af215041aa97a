"""Weights & Biases, offline: a run in the run's directory, which `wandb sync` sends when you want it to."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import wandb

from feddecorr.errors import UserError
from feddecorr.runs.tracker import Entry, Tracker


class WeightsAndBiases(Tracker):
    """Offline, unless WANDB_MODE says otherwise; several parts of an interrupted run have one id."""

    past = "*run-*"

    def __init__(self, folder: Path, *, name: str, digest: str, number: int) -> None:
        if (settings := folder / "wandb" / "settings").exists():
            raise UserError(f"{settings} could send the run elsewhere: remove it, and set what you want by variables")
        mode = os.environ.get("WANDB_MODE", "offline")
        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", "feddecorr"),
            dir=folder,
            name=name,
            id=digest,
            resume="allow" if number and mode != "offline" else None,
            mode=mode,  # type: ignore[arg-type]  # what the user's environment says
            settings=wandb.Settings(silent=True, console="off", save_code=False, disable_git=True),
        )

    def settings(self, flat: Mapping[str, Any]) -> None:
        """Note them as the run's config."""
        self._run.config.update(dict(flat))  # type: ignore[no-untyped-call]  # it has no types

    def entry(self, entry: Entry) -> None:
        """Note a round as a step."""
        spectra = {name: wandb.Histogram(list(values)) for name, values in entry.spectra.items()}
        self._run.log({"round": entry.round, **entry.scalars, **spectra}, step=entry.round)

    def artifacts(self, files: Sequence[Path]) -> None:
        """Keep them as one artifact."""
        artifact = wandb.Artifact(f"run-{self._run.id}", type="run")
        for file in files:
            artifact.add_file(str(file))
        self._run.log_artifact(artifact)

    def close(self) -> None:
        """End this part of the run."""
        self._run.finish()
