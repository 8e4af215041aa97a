"""The small files of a run besides its rounds: data, roster, environment, and the weights with which a round counts."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pydantic import PositiveInt

from feddecorr.core.files import AnyPath, load_note, load_tensors, reading, save_tensors
from feddecorr.core.registry import Config
from feddecorr.core.states import State
from feddecorr.core.text import parse_json
from feddecorr.partition.heterogeneity import LabelCounts
from feddecorr.server.federation import Roster

ENTRIES = ("client", "label", "count")
KEY = "run"
"""The one key of the note: of several, the order in the file would be by chance, and so its bytes."""


class AboutData(Config):
    """The file `federation.json`: what a reader of results has to know, and digests that tell other data apart."""

    note: str
    classes: tuple[str, ...]
    clients: int
    data: str | None
    split: str | None


def write_roster(path: AnyPath, roster: Roster) -> None:
    """Write everybody's number of examples and, where it is known, how many are of which class."""
    arrays = {"sizes": roster.sizes.astype(np.int32)}
    note = {}
    if roster.labels is not None:
        arrays |= {name: getattr(roster.labels, name) for name in ENTRIES}
        note["classes"] = str(roster.labels.classes)
    save_tensors(path, {name: torch.from_numpy(array) for name, array in arrays.items()}, note)


def read_roster(path: AnyPath) -> Roster:
    """Return what `write_roster` wrote."""
    arrays = {name: tensor.numpy() for name, tensor in load_tensors(path).items()}
    note = load_note(path)
    with reading(path):
        sizes = arrays.pop("sizes").astype(np.int64)
        if not arrays:
            return Roster(sizes)
        labels = LabelCounts(len(sizes), int(note["classes"]), **arrays)
        for name, bound in (("client", len(sizes)), ("label", labels.classes), ("count", 2**31)):
            values = getattr(labels, name)
            if values.shape != labels.count.shape or values.ndim != 1 or values.dtype != np.int32:
                raise ValueError(f"'{name}' is {values.dtype} of shape {values.shape}")
            if len(values) and not 0 <= values.min() <= values.max() < bound:
                raise ValueError(f"'{name}' has values outside of 0 to {bound - 1}")
        return Roster(sizes, labels)


def environment() -> dict[str, Any]:
    """Return all of it, ready for JSON."""
    packages = ("feddecorr", "torch", "numpy", "safetensors")
    return {
        "versions": {"python": platform.python_version(), **{name: version(name) for name in packages}},
        "commit": _commit(),
        "platform": platform.platform(),
        "processor": platform.machine(),
        "cores": os.cpu_count(),
    }


def _commit() -> str | None:
    """Return the commit of the source tree, with a plus sign if it was changed since; None outside of one."""
    here = Path(__file__).parent
    command = ["git", "-C", str(here), "describe", "--always", "--abbrev=40", "--dirty=+", "--exclude=*"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10)  # noqa: S603 - fixed words
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


class Mark(Config):
    """The round, the digest of what the method keeps, and the tally of what clients remember."""

    round: PositiveInt
    server: str
    memories: str


def write_weights(path: AnyPath, weights: State, mark: Mark) -> None:
    """Replace the file in one step."""
    save_tensors(path, weights, {KEY: mark.model_dump_json()})


def read_mark(path: AnyPath) -> Mark:
    """Return the mark of the file, without its tensors."""
    note = load_note(path)
    with reading(path):
        return Mark.parse(parse_json(note[KEY].encode()))
