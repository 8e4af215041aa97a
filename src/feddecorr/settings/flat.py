"""Settings, the one flat form in which an experiment and its run options are written: parsed, and said again.

`rounds=20 training.lr=0.1 device=cuda` on the command line, the same keys in TOML, JSON and a run's directory.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from feddecorr.config.experiment import AUTO, Experiment
from feddecorr.config.overrides import flatten, read_overrides, spell_out
from feddecorr.core.registry import Config
from feddecorr.core.trust import Trust
from feddecorr.errors import UserError
from feddecorr.settings.options import REGISTRIES, RunOptions
from feddecorr.settings.short_keys import KEYS, explain_unknown, full_keys

Value = TypeVar("Value", bound=Config)


def parse_settings(settings: Mapping[str, Any], trust: Trust | None = None) -> tuple[Experiment, RunOptions]:
    """Return the experiment and the run options that settings say; all that is wrong is reported together.

    A key may be short, as `lr` is for `training.lr`, where it ends the key of one option alone of all that is chosen.
    Settings of a file are given with the trust in it, else code that they name is imported as if said here.
    """
    if not isinstance(settings, Mapping):  # whatever a file holds
        raise UserError(f"settings are a table, not {type(settings).__name__}")
    parts: dict[type[Config], dict[str, Any]] = {Experiment: {}, RunOptions: {}}
    problems = []
    held = {key for key, value in flatten(settings).items() if value != {}}
    for short, full in (in_full := full_keys(map(str, settings), [settings], trust)).items():
        problems += [
            f"{short} and {key} are the same option: say it once"
            for key in held & flatten({full: settings[short]}).keys()
        ]
    for key, value in (spell_out(settings, in_full) if in_full else settings).items():
        if key in KEYS:
            parts[KEYS[key]][key] = value
        else:
            spelled = str(key).encode(errors="backslashreplace").decode()  # JSON can hold half a character
            problems.append(explain_unknown(spelled, settings, trust))
    training = parts[Experiment].get("training")
    if isinstance(training, Mapping):
        training = dict(training)
        if training.get("clients_per_batch") == AUTO:
            del training["clients_per_batch"]
            parts[RunOptions]["auto_batching"] = True
        for key in RunOptions.model_fields.keys() & training.keys():
            del training[key]
            problems.append(f"training: unknown option '{key}': did you mean '{key}', which is a setting on its own?")
        parts[Experiment]["training"] = training
    experiment = _parse(Experiment, parts[Experiment], trust, problems)
    options = _parse(RunOptions, parts[RunOptions], trust, problems)
    if experiment is None or options is None or problems:
        raise UserError("\n".join(problems))
    return experiment.on(options.device), options


def _parse(kind: type[Value], settings: dict[str, Any], trust: Trust | None, problems: list[str]) -> Value | None:
    try:
        return kind.parse(settings, trust)
    except UserError as error:
        problems.append(str(error))
        return None


def to_settings(experiment: Experiment, options: RunOptions) -> dict[str, Any]:
    """Return the settings that say both, ready for JSON."""
    return {**experiment.to_dict(), **options.to_dict()}


def command(experiment: Experiment, options: RunOptions) -> str:
    """Return the one command that does the run again, with all settings that are not the defaults."""
    return shlex.join(["feddecorr", "run", *overrides_of(experiment), *overrides_of(options)])


def overrides_of(value: Experiment | RunOptions) -> list[str]:
    """Return the overrides that say the value; what is chosen by name is named even where it is the default."""
    said: list[str] = []
    for key, field in type(value).model_fields.items():
        setting = getattr(value, key)
        if isinstance(setting, Mapping):  # several by name
            said += overrides(key, ",".join(setting)) if setting else []
            for name, kind in setting.items():
                said += overrides(f"{key}.{name}", REGISTRIES[key].options(kind, defaults=False))
        elif key in REGISTRIES and (isinstance(value, Experiment) or setting != field.default):
            registry = REGISTRIES[key]
            said += overrides(key, {"name": registry.name(setting), **registry.options(setting, defaults=False)})
        elif isinstance(setting, Config):
            said += overrides(key, setting.to_dict(defaults=False))
        elif setting != field.default:
            said += overrides(key, setting)
    return said


def overrides(key: str, value: Any) -> list[str]:
    """Return `key=value` words; a table becomes one for each of its options, the name first."""
    return list(_overrides(key, value))


def _overrides(key: str, value: Any) -> Iterator[str]:
    if isinstance(value, Mapping) and value and all(isinstance(inner, Mapping) for inner in value.values()):
        yield f"{key}={','.join(value)}"  # several by name
        for name, options in value.items():
            yield from _overrides(f"{key}.{name}", options)
    elif isinstance(value, Mapping):
        for option, inner in sorted(value.items(), key=lambda item: item[0] != "name"):
            yield from _overrides(key if option == "name" else f"{key}.{option}", inner)
    elif value is not None:  # TOML has no such value; an option that may be None is None by default
        yield f"{key}={text(value)}"


def text(value: Any) -> str:
    """Return the text that is read back as the value, in quotes only where it would be read as something else."""
    if isinstance(value, str) and read_overrides([f"value={value}"])["value"] == value:
        return value
    return str(value) if isinstance(value, float) else json.dumps(value)
