"""TensorBoard: event files in the run's directory; `tensorboard --logdir RUN` shows them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from feddecorr.trackers.tracker import Tracker, TrackerEntry, TrackerLog

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter


class TensorBoard(Tracker):
    """TensorBoard: scalars, histograms of spectra, and the settings as text."""

    def open(self, folder: Path, *, name: str, digest: str, number: int) -> TrackerLog:  # noqa: ARG002 - known by its folder
        """Open a file of events; what was logged after the last round that counts is dropped, as the run drops it."""
        from torch.utils.tensorboard import SummaryWriter  # noqa: PLC0415 - an extra

        return _Events(SummaryWriter(str(folder), purge_step=number + 1 if number else None))


class _Events(TrackerLog):
    def __init__(self, writer: SummaryWriter) -> None:
        self._writer = writer

    def settings(self, flat: Mapping[str, Any]) -> None:
        """Log them as a table of Markdown."""
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
        """Say where they lie: TensorBoard keeps none."""
        self._writer.add_text("artifacts", "\n".join(f"- {file.resolve()}" for file in files), 0)

    def close(self) -> None:
        """Close the file of events."""
        self._writer.close()
