"""TensorBoard: event files in the run's directory; `tensorboard --logdir RUN` shows them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from torch.utils.tensorboard import SummaryWriter

from feddecorr.runs.tracker import Entry, Tracker


class TensorBoard(Tracker):
    """Scalars, histograms of spectra, and the settings as text; artifacts are named, not copied."""

    def __init__(self, folder: Path, *, name: str, digest: str, number: int) -> None:  # noqa: ARG002 - known by its folder
        # What was told after the last round that counts is dropped, as the run drops it.
        self._writer = SummaryWriter(str(folder), purge_step=number + 1 if number else None)

    def settings(self, flat: Mapping[str, Any]) -> None:
        """Note them as a table of Markdown."""
        rows = "\n".join(f"| {key} | {value} |" for key, value in flat.items())
        self._writer.add_text("settings", f"| setting | value |\n| --- | --- |\n{rows}", 0)

    def entry(self, entry: Entry) -> None:
        """Note a round as a step."""
        for name, value in entry.scalars.items():
            self._writer.add_scalar(name, value, entry.round)
        for name, values in entry.spectra.items():
            self._writer.add_histogram(name, np.asarray(values), entry.round)
        self._writer.flush()

    def artifacts(self, files: Sequence[Path]) -> None:
        """Say where they lie: TensorBoard keeps none."""
        self._writer.add_text("artifacts", "\n".join(f"- {file.resolve()}" for file in files), 0)

    def close(self) -> None:
        """Close the file of events."""
        self._writer.close()
