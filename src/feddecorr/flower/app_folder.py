"""A thin Flower app: a pyproject.toml that names our components and holds settings, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from feddecorr.config.experiment import Experiment
    from feddecorr.config.options import RunOptions

CLIENT = "feddecorr.flower.client_app:app"
SERVER = "feddecorr.flower.server_app:app"


def write_experiment(folder: Path, experiment: Experiment, options: RunOptions, *, out: Path, test: str) -> None:
    """Write the app of an experiment; `rounds` stands by itself, so that `--run-config rounds=N` goes further.

    It lists no dependency: Flower would install those, over what is there.
    """
    settings: dict[str, str | int] = {"out": str(out), "test": test, "rounds": options.rounds}
    settings["experiment"] = json.dumps({**experiment.to_dict(), **options.to_dict()})
    folder.mkdir(parents=True, exist_ok=True)
    lines = [
        "[project]",
        'name = "feddecorr-app"',
        'version = "1.0.0"',
        'description = "A federation of feddecorr, which has to be installed where this runs"',
        'license = "Apache-2.0"',
        "dependencies = []",
        "",
        "[tool.flwr.app]",
        'publisher = "feddecorr"',
        "",
        "[tool.flwr.app.components]",
        f'serverapp = "{SERVER}"',
        f'clientapp = "{CLIENT}"',
        "",
        "[tool.flwr.app.config]",
        *(f"{name} = {json.dumps(value)}" for name, value in settings.items()),
    ]
    (folder / "pyproject.toml").write_text("\n".join(lines) + "\n")
