"""The small runs that are tortured, and what must come out of them."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

from feddecorr.config.experiment import Experiment
from feddecorr.config.overrides import read_overrides
from feddecorr.settings.flat import parse_settings
from feddecorr.settings.options import RunOptions

WORDS = [
    "data=synthetic", "data.train=120", "data.test=40", "data.classes=4", "data.channels=1", "data.size=8",
    "clients=4", "partition.alpha=0.3", "partition.minimum=5", "model=convnet", "model.widths=[8,16]",
    "training.epochs=1", "training.batch=16", "training.lr=0.05", "rounds=3", "participation=0.75",
]  # fmt: skip


def small_experiment(*words: str) -> tuple[Experiment, RunOptions]:
    """Return an experiment that takes a second."""
    return parse_settings(read_overrides([*WORDS, *words]))


def outcome(directory: Path) -> Any:
    """Return all rounds of a run without their times, and the digest of its weights."""
    lines = [json.loads(line) for line in (directory / "rounds.jsonl").read_text().splitlines()]
    weights = sha256((directory / "weights.safetensors").read_bytes()).hexdigest()
    return [{**line, "seconds": 0} for line in lines], weights


def leftovers(directory: Path) -> list[str]:
    """Return files that nobody needs any more: of writes that were cut off, and of servers before the last but one."""
    number = len((directory / "rounds.jsonl").read_bytes().splitlines())
    servers = [file for file in directory.glob("server/*") if int(file.stem) not in (number, number - 1)]
    hidden = [file for file in directory.rglob(".*") if file.is_file() and file.name != ".lock"]
    return [str(file.relative_to(directory)) for file in (*servers, *hidden)]
