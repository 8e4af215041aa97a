"""A thin Flower app: a pyproject.toml that names our components and holds settings, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

CLIENT = "feddecorr.flower.client_app:app"


def write_app(folder: Path, *, server: str, settings: Mapping[str, str | int]) -> None:
    """Write the app. It lists no dependency: Flower would install those, over what is there."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = [
        "[project]",
        'name = "feddecorr-app"',
        'version = "1.0.0"',
        'description = "A federation of feddecorr, which has to be installed where this runs"',
        "dependencies = []",
        "",
        "[tool.flwr.app]",
        'publisher = "feddecorr"',
        "",
        "[tool.flwr.app.components]",
        f'serverapp = "{server}"',
        f'clientapp = "{CLIENT}"',
        "",
        "[tool.flwr.app.config]",
        *(f"{name} = {json.dumps(value)}" for name, value in settings.items()),
    ]
    (folder / "pyproject.toml").write_text("\n".join(lines) + "\n")
