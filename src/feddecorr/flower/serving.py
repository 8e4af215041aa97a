"""A run from the settings of a Flower app to its directory."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flwr.serverapp import Grid

from feddecorr.config.overrides import read_overrides
from feddecorr.config.settings import parse_settings
from feddecorr.data import DATA
from feddecorr.flower.deployment import Deployment
from feddecorr.runs.directory import RunDirectory
from feddecorr.runs.pipeline import ensure
from feddecorr.runs.record import Record


def serve(grid: Grid, settings: Mapping[str, Any]) -> None:
    """Begin the run of the settings `experiment`, `out` and `test`, or go on with it; what is done is not done again.

    Other settings change the experiment, as words on the command line do: so `flwr run --run-config` can.
    """
    words = [f"{name}={value}" for name, value in settings.items() if name not in ("experiment", "out", "test")]
    experiment, options = parse_settings(read_overrides(words, onto=json.loads(settings["experiment"])))
    out = Path(settings["out"])
    if RunDirectory(out).is_done(experiment, options):
        say(f"{out} has all {options.rounds} rounds already")
        return
    test = DATA.parse(read_overrides([f"data={settings['test']}"])["data"]).load() if settings.get("test") else None
    connection = Deployment(grid, experiment, options, out, test=test, say=say)
    for record in ensure(experiment, options, out, through=connection):
        say(_line(record, options.rounds))
    say(f"{out} is done")


def say(text: str) -> None:
    """Write to Flower's log, which `flwr run --stream` shows."""
    logging.getLogger("flwr").info("feddecorr: %s", text)


def _line(record: Record, rounds: int) -> str:
    parts = [f"round {record.round} of {rounds}", f"{record.seconds:.1f} s"]
    if record.accuracy is not None:
        parts.append(f"accuracy {record.accuracy:.4f}")
    parts += [f"{name} {value:.4f}" for name, value in record.terms.items()]
    parts += [f"without client {client} ({why})" for client, why in record.missing.items()]
    parts += [f"client {client}: {what}" for client, what in record.notes.items()]
    return ", ".join(parts)
