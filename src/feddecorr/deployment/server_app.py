"""The ServerApp of a deployed federation: an ordinary run whose clients are on SuperNodes."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from feddecorr.config.overrides import read_overrides
from feddecorr.data import DATA
from feddecorr.deployment.server import Deployment
from feddecorr.runs.directory import RunDirectory
from feddecorr.runs.pipeline import ensure
from feddecorr.runs.record import Record
from feddecorr.settings.flat import parse_settings

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Start or resume the run that the app describes."""
    serve(grid, context.run_config)


def serve(grid: Grid, run_config: Mapping[str, Any]) -> None:
    """Start or resume the run of `experiment`, `out` and `test`; finished rounds are not repeated.

    Other entries override the experiment like arguments on the command line, so `flwr run --run-config` can.
    """
    words = [f"{name}={value}" for name, value in run_config.items() if name not in ("experiment", "out", "test")]
    experiment, options = parse_settings(read_overrides(words, onto=json.loads(run_config["experiment"])))
    out = Path(run_config["out"])
    if RunDirectory(out).is_done(experiment, options):
        log(f"{out} already has all {options.rounds} rounds")
        return
    test = DATA.parse(read_overrides([f"data={run_config['test']}"])["data"]).load() if run_config.get("test") else None
    connection = Deployment(grid, experiment, options, out, test=test, log=log)
    for record in ensure(experiment, options, out, through=connection):
        log(_summary(record, options.rounds))
    log(f"{out} is done")


def log(text: str) -> None:
    """Write to Flower's log, which `flwr run --stream` shows."""
    logging.getLogger("flwr").info("feddecorr: %s", text)


def _summary(record: Record, rounds: int) -> str:
    parts = [f"round {record.round} of {rounds}", f"{record.seconds:.1f} s"]
    if record.accuracy is not None:
        parts.append(f"accuracy {record.accuracy:.4f}")
    parts += [f"{name} {value:.4f}" for name, value in record.terms.items()]
    parts += [f"without client {client} ({why})" for client, why in record.missing.items()]
    parts += [f"client {client}: {note}" for client, note in record.notes.items()]
    return ", ".join(parts)
