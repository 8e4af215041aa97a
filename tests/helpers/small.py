"""Small experiments that show every law within a second."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch

from feddecorr.config.experiment import Experiment
from feddecorr.config.overrides import read_overrides
from feddecorr.core.states import State
from feddecorr.runs.directory import RunDirectory
from feddecorr.runs.record import Record
from feddecorr.server.federation import Simulation
from feddecorr.settings.flat import parse_settings
from feddecorr.settings.options import RunOptions

SETTINGS: dict[str, Any] = {
    "data": {"name": "synthetic", "train": 120, "test": 40, "classes": 4, "channels": 1, "size": 8},
    "clients": 4,
    "partition": {"name": "dirichlet", "alpha": 0.3, "minimum": 5},
    "model": {"name": "convnet", "widths": [8, 16]},
    "training": {"epochs": 2, "batch": 16, "lr": 0.05},
    "evaluation": {"label_measures": "always"},
    "rounds": 3,
}


class Small(NamedTuple):
    """What is run, and how: `run(*small(…), out)`."""

    experiment: Experiment
    options: RunOptions


def small(*words: str) -> Small:
    """Return the small experiment and its run options, changed by words as on the command line."""
    return Small(*parse_settings(read_overrides(words, onto=SETTINGS)))


def simulate(*words: str) -> Simulation:
    """Return the clients of the small experiment, changed by words as on the command line."""
    experiment, options = small(*words)
    simulation = Simulation(experiment, device=options.device, evaluation=options.evaluation)
    return simulation.with_task(simulation.task.choose_batching()[0]) if options.auto_batching else simulation


def write_settings(path: Path) -> Path:
    """Write the small experiment's settings to a file that the command line takes."""
    path.write_text(json.dumps(SETTINGS))
    return path


def digest(state: State) -> str:
    """Return a name for the exact bits of a state."""
    bits = hashlib.sha256()
    for name in sorted(state):
        bits.update(name.encode() + state[name].contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return bits.hexdigest()


def forget_models(directory: Path) -> None:
    """Make a run look as of a server that has no test images: no round holds a model's measures."""
    lines = [replace(record, model=None).to_dict() for record in RunDirectory.open(directory).rounds()]
    (directory / "rounds.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def result(records: Iterable[Record]) -> list[Any]:
    """Return all of a run that must not depend on who ran it, when, or how often it was interrupted."""
    return [[without_time(record.to_dict()), digest(record.state)] for record in records]


def without_time(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record without its duration."""
    return {key: value for key, value in record.items() if key != "seconds"}
