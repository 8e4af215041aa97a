"""The table of places where runs can be done, and how they are named."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from feddecorr.errors import UserError, nearest
from feddecorr.sweeps.executor import Executor
from feddecorr.sweeps.on_ray import OnRay
from feddecorr.sweeps.on_slurm import OnSlurm
from feddecorr.sweeps.runner import Local

EXECUTORS: dict[str, type[Executor]] = {"local": Local, "ray": OnRay, "slurm": OnSlurm}
"""Executors by the words of `--on`."""


def choose_executor(on: str, options: Mapping[str, Any]) -> Executor:
    """Return the executor of that name, or of Ray at an address, with those options that are not None."""
    given = {name: value for name, value in options.items() if value is not None}
    name = on
    if on not in EXECUTORS and (":" in on or on == "auto"):
        name, given["address"] = "ray", on
    elif on == "ray" and (address := os.environ.get("RAY_ADDRESS")):
        given["address"] = address
    if name not in EXECUTORS:
        raise UserError(f"--on {on}: {nearest(on, EXECUTORS)} (Ray also by its address, such as ray://head:10001)")
    chosen = EXECUTORS[name]
    for option in given:
        if option not in chosen.model_fields:
            fitting = [each for each, executor in EXECUTORS.items() if option in executor.model_fields]
            raise UserError(f"--{option} is not for --on {name}, but for --on {' and '.join(fitting)}")
    executor = chosen.parse(given)
    executor.check()
    return executor
