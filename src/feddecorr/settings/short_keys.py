"""Short keys: `lr=0.1` says `training.lr=0.1` where one option alone of all that is chosen ends in that name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from feddecorr.config.experiment import Experiment
from feddecorr.config.overrides import SEVERAL, read_overrides, spell_out
from feddecorr.config.training import CHOICES, Evaluation, Training
from feddecorr.core.registry import Config, Registry
from feddecorr.core.text import read_list
from feddecorr.core.trust import Trust
from feddecorr.errors import closest, nearest
from feddecorr.settings.options import REGISTRIES, RunOptions

KEYS: dict[str, type[Config]] = dict.fromkeys(Experiment.model_fields, Experiment) | dict.fromkeys(
    RunOptions.model_fields, RunOptions
)
"""Which of the two values each top-level key belongs to."""

FAMILIES: dict[str, Registry[Any]] = REGISTRIES | CHOICES
OTHER_WORDS = {
    **dict.fromkeys(("learning_rate", "step_size"), "lr"),
    **dict.fromkeys(("num_clients", "n_clients", "parties"), "clients"),
    "fraction": "participation",
    "gpu": "device",
    "arch": "model",
}
"""What other programs call an option, where its name here is not like it."""

TABLES: dict[str, type[Config]] = {"training": Training, "evaluation": Evaluation}


def read_settings(
    words: Iterable[str], onto: Mapping[str, Any] | None = None, trust: Trust | None = None
) -> dict[str, Any]:
    """Return what files and words say, as `read_overrides` does, with the full keys in place of short ones."""
    said = list(words)
    settings = read_overrides(said, onto)
    short = full_keys(settings, [settings], trust)
    return read_overrides(said, onto, short) if short else settings


def full_keys(keys: Iterable[str], among: Iterable[Mapping[str, Any]], trust: Trust | None = None) -> dict[str, str]:
    """Return the full key of each short one that stands for one option alone, of all that any of these settings choose.

    Of an option of the experiment and one of how it is run, the former is meant.
    """
    unknown, chosen = {key for key in keys if key not in KEYS and "." not in key}, list(among)
    full: dict[str, str] = {}
    while new := {key: found[0] for key in unknown - full.keys() if len(found := _ending_in(key, chosen, trust)) == 1}:
        full |= new
        chosen = [spell_out(each, new) for each in chosen]  # which may choose a kind that has another of the options
    return full


def explain_unknown(key: str, settings: Mapping[str, Any], trust: Trust | None = None) -> str:
    """Say what a key that is neither known nor a short one could mean."""
    if found := _ending_in(key, [settings], trust):
        return f"'{key}' could be {' or '.join(found)}: say which"
    if kinds := sorted(_kinds_with(key)):
        return f"nothing that is chosen has the option '{key}': it belongs to {', '.join(kinds)}"
    full = {each.rpartition(".")[2]: each for each in reversed(list(_keys(settings, trust)))} | {
        top: top for top in KEYS
    }
    meant = OTHER_WORDS.get(key) or closest(key, full)
    said = nearest(key, KEYS) if meant is None else f"did you mean '{full[meant]}'?"
    return f"unknown option '{key}': {said}"


def _ending_in(name: str, settings: Iterable[Mapping[str, Any]], trust: Trust | None) -> list[str]:
    found = [key for each in settings for key in _keys(each, trust) if key.rpartition(".")[2] == name]
    return list(dict.fromkeys([key for key in found if KEYS[key.partition(".")[0]] is Experiment] or found))


def _keys(settings: Mapping[str, Any], trust: Trust | None) -> Iterator[str]:
    """Yield the dotted keys of all that is chosen, those of the experiment first."""
    return (key for top in KEYS for key in _below(top, settings.get(top), trust))


def _below(key: str, value: Any, trust: Trust | None) -> Iterator[str]:
    yield key
    held = value if isinstance(value, Mapping) else {}
    if key in SEVERAL:
        for name in held or read_list("none" if value is None or value == {} else value):
            options = held.get(name, {})
            known = {"name": name, **options} if isinstance(options, Mapping) else options
            yield f"{key}.{name}"
            yield from (f"{key}.{name}.{option}" for option in _options(FAMILIES[key].chosen(known, trust)))
    elif key in FAMILIES:
        yield from (
            f"{key}.{option}" for option in _options(FAMILIES[key].chosen({} if value is None else value, trust))
        )
    elif key in TABLES:
        for option in TABLES[key].model_fields:
            yield from _below(f"{key}.{option}", held.get(option), trust)


def _options(kind: type[Config] | None) -> Iterable[str]:
    return () if kind is None else kind.model_fields


def is_key(word: str) -> bool:
    """Return whether any option ends in that word, whatever is chosen."""
    known = word.partition(".")[0] in KEYS or any(word in table.model_fields for table in TABLES.values())
    return known or any(_kinds_with(word))


def _kinds_with(option: str) -> Iterator[str]:
    """Yield `key=name` of every kind that has such an option."""
    for key, family in FAMILIES.items():
        yield from (f"{key}={name}" for name, kind in family.table.items() if option in kind.model_fields)
