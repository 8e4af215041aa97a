"""Sites of a deployed federation in one process, each with a folder of pictures of its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from local_grid import LocalGrid
from PIL import Image
from small import Small, small

from feddecorr.deployment.server_app import Deployment

COLOURS = {"red": (200, 30, 30), "green": (30, 200, 30), "blue": (30, 30, 200), "grey": (90, 100, 110)}


def write_pictures(folder: Path, classes: Iterable[str], *, size: int = 8, count: int = 10) -> Path:
    """Write pictures of one colour for each class, with noise that differs from site to site."""
    noise = np.random.default_rng(list(str(folder).encode()))
    for name in classes:
        (folder / name).mkdir(parents=True, exist_ok=True)
        for number in range(count):
            pixels = np.array(COLOURS[name]) + noise.integers(-25, 26, size=(size, size, 3))
            Image.fromarray(pixels.astype(np.uint8)).save(folder / name / f"{number}.png")
    return folder


def write_sites(folder: Path, sites: Mapping[int, Iterable[str]]) -> dict[int, dict[str, Any]]:
    """Return the configurations of nodes 100, 101, …, one for each client, with pictures of those classes."""
    return {
        100 + client: {
            "client": client,
            "data": f"folder:{write_pictures(folder / f'pictures-{client}', classes)}",
            "memory": str(folder / f"disk-{client}"),
        }
        for client, classes in sites.items()
    }


def federated(*words: str) -> Small:
    """Return the small experiment of three clients with their own pictures."""
    words = ("clients=3", "engine=flower", "engine.wait=0.05", "rounds=2", "training.steps=2", *words)
    experiment, options = small(*words)
    return Small(experiment.model_copy(update={"data": small("data=nodes").experiment.data}), options)


def connect(grid: LocalGrid, settings: Small, out: Path, said: list[str] | None = None) -> Deployment:
    """Return a server's connection to the nodes of the grid."""
    return Deployment(grid, *settings, out, test=None, log=([] if said is None else said).append)
