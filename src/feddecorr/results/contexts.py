"""Which runs can be compared: those that agree in every setting but the one that is looked at, seed by seed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from feddecorr.config.overrides import flatten
from feddecorr.results.summary import Summary

Context = tuple[tuple[str, str], ...]
"""Settings with dotted keys and their values as text; runs with the same context can be compared."""

LENGTH = ("rounds", "training.schedule.over")
"""How long a run is: its rounds, and those over which its learning rate falls."""


def covers(name: str, key: str) -> bool:
    """Tell whether a name stands for a key: itself, or a table that holds it."""
    return key == name or key.startswith(f"{name}.")


def context(summary: Summary, but: Sequence[str] = ()) -> Context:
    """Return the experiment of a run and its number of rounds, without the seed and these settings."""
    return experiment_context(summary.content, int(summary.options["rounds"]), but)


def experiment_context(content: Mapping[str, Any], rounds: int, but: Sequence[str] = ()) -> Context:
    """Return what runs of such an experiment have in common with others that they can be compared with."""
    left_out = ("seed", *but)
    return tuple(
        (key, json.dumps(value))
        for key, value in sorted(flatten({**content, "rounds": rounds}).items())
        if not any(covers(name, key) for name in left_out)
    )


def chosen(summary: Summary, name: str) -> str:
    """Return what a run has for a setting, in few words: the kind's name and its options, or the value."""
    value = summary.settings.get(name)
    if value is None:
        value = flatten(summary.settings).get(name, "–")
    if not isinstance(value, Mapping):
        return str(value)
    if "name" in value:
        options = [f"{key}={option}" for key, option in flatten(value).items() if key != "name"]
        return " ".join([str(value["name"]), *options])
    return " ".join(f"{key}={option}" for key, option in flatten(value).items()) or "none"


def is_finished(summary: Summary) -> bool:
    """Tell whether a run has all of its rounds."""
    return len(summary.rounds) >= int(summary.options["rounds"])


def by_seed(summaries: Iterable[Summary]) -> dict[int, Summary]:
    """Return runs of one context by seed; those with the same seed have the same bits."""
    return {int(summary.experiment["seed"]): summary for summary in summaries}


def differing(contexts: Iterable[Context]) -> list[str]:
    """Return the keys whose values differ between contexts, or that only some of them have."""
    seen: dict[str, list[str]] = {}
    count = 0
    for each in contexts:
        count += 1
        for key, value in each:
            seen.setdefault(key, []).append(value)
    return [key for key, values in seen.items() if len(set(values)) > 1 or len(values) < count]
