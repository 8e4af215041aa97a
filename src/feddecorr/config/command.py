"""An experiment as the words that say it: the inverse of reading settings."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from feddecorr.config.experiment import REGISTRIES, Experiment
from feddecorr.config.overrides import read_overrides
from feddecorr.core.registry import Config, options_of

SILENT = ("engine", "trackers")
"""Settings that change nothing of the result."""


def command(experiment: Experiment) -> str:
    """Return the one command that does the run again, with all settings that are not the defaults."""
    return shlex.join(["feddecorr", "run", *experiment_overrides(experiment)])


def experiment_overrides(experiment: Experiment) -> list[str]:
    """Return the words that say the experiment; kinds are named even where they are the default."""
    said: list[str] = []
    for key in type(experiment).model_fields:
        value = getattr(experiment, key)
        if key in SILENT:
            continue
        if isinstance(value, Mapping):  # several kinds by name
            said += words(key, ",".join(value)) if value else []
            for name, kind in value.items():
                said += words(f"{key}.{name}", REGISTRIES[key].options(kind, defaults=False))
        elif key in REGISTRIES:
            said += words(key, {"name": REGISTRIES[key].name(value), **REGISTRIES[key].options(value, defaults=False)})
        elif isinstance(value, Config):
            said += words(key, options_of(value, defaults=False))
        elif value != type(experiment).model_fields[key].default:
            said += words(key, value)
    return said


def words(key: str, value: Any) -> list[str]:
    """Return `key=value` words; a table becomes one for each of its options, the kind's name first."""
    return list(_words(key, value))


def _words(key: str, value: Any) -> Iterator[str]:
    if isinstance(value, Mapping) and value and all(isinstance(inner, Mapping) for inner in value.values()):
        yield f"{key}={','.join(value)}"  # several kinds by name
        for name, options in value.items():
            yield from _words(f"{key}.{name}", options)
    elif isinstance(value, Mapping):
        for option, inner in sorted(value.items(), key=lambda item: item[0] != "name"):
            yield from _words(key if option == "name" else f"{key}.{option}", inner)
    elif value is not None:  # TOML has no such value; an option that may be None is None by default
        yield f"{key}={text(value)}"


def text(value: Any) -> str:
    """Return the text that is read back as the value, in quotes only where it would be read as something else."""
    if isinstance(value, str) and read_overrides([f"value={value}"])["value"] == value:
        return value
    return str(value) if isinstance(value, float) else json.dumps(value)
