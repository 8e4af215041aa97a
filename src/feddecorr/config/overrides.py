"""Settings from TOML files and `key=value` words: nested dictionaries, in which later words win.

Nothing heavy is imported here, so that a run's engine can be started while PyTorch is being imported.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

from feddecorr.core.limits import read_plain
from feddecorr.core.text import is_text, parse_json, read_list
from feddecorr.errors import UserError

SEVERAL = ("regularizers", "transforms", "trackers", "evaluation.measures")
"""The settings that are tables of kinds by name, where others are one kind with a `name`."""


def read_overrides(
    words: Iterable[str], onto: Mapping[str, Any] | None = None, in_full: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Return the settings that files (`FILE.toml`, `FILE.json`) and `key=value` words say, in their order.

    With `onto`, they change those settings. `in_full` holds the dotted keys that short ones stand for.
    """
    settings: dict[str, Any] = deepcopy(dict(onto or {}))
    full = {short: tuple(key.split(".")) for short, key in (in_full or {}).items()}
    for word in words:
        if not is_text(word):
            raise UserError(f"{word!r}: a setting is text in UTF-8")
        key, equals, text = map(str.strip, word.partition("="))
        if not equals:
            for top, held in read_file(Path(word)).items():
                _put_all(settings, full.get(top, (top,)), held)
        elif not all(key.split(".")):
            raise UserError(f"'{word}': a setting is key=value with a dotted key, such as training.lr=0.01")
        else:
            top, *rest = key.split(".")
            _put(settings, (*full.get(top, (top,)), *rest), _value(text))
    return settings


def spell_out(settings: Mapping[str, Any], in_full: Mapping[str, str]) -> dict[str, Any]:
    """Return the settings with the dotted keys that short ones stand for."""
    spelled = {key: _copied(value) for key, value in settings.items() if key not in in_full}
    for short in (key for key in settings if key in in_full):
        _put_all(spelled, tuple(in_full[short].split(".")), settings[short])
    return spelled


def _copied(value: Any) -> Any:
    return {key: _copied(inner) for key, inner in value.items()} if isinstance(value, dict) else value


def said(words: Iterable[str]) -> frozenset[str]:
    """Return all names that were said as words, not by files: of settings, their options and their values."""
    spoken: set[str] = set()
    for word in words:
        key, equals, text = map(str.strip, word.partition("="))
        if equals:
            spoken.update([*key.split("."), *map(str, read_list(_value(text)))])
    return frozenset(spoken)


def read_file(path: Path) -> dict[str, Any]:
    """Return the settings of a TOML or JSON file."""
    try:
        text = read_plain(path).decode("utf-8-sig")  # editors on Windows write a mark before it
    except FileNotFoundError as error:
        raise UserError(
            f"'{path}' is neither a setting (key=value, without spaces) nor a file that is there"
        ) from error
    except OSError as error:
        raise UserError(f"'{path}' cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: expected text in UTF-8: settings are a .toml or .json file") from error
    try:
        settings = parse_json(text.encode()) if path.suffix == ".json" else tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}: {error}") from error
    if not isinstance(settings, dict):
        raise UserError(f"{path}: expected a table of settings, found {type(settings).__name__}")
    return settings


def flatten(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return the settings with dotted keys, without tables in tables; an empty table is a value."""
    flat: dict[str, Any] = {}
    for key, value in settings.items():
        if isinstance(value, Mapping) and value:
            flat |= flatten(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def _value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        return text


def _put_all(settings: dict[str, Any], place: tuple[str, ...], held: Any) -> None:
    if isinstance(held, dict) and held:
        for key, value in sorted(held.items(), key=lambda item: item[0] != "name"):  # the kind before its options
            _put_all(settings, (*place, key), value)
    else:
        _put(settings, place, held)


def _put(settings: dict[str, Any], place: tuple[str, ...], value: Any) -> None:
    for several in SEVERAL:
        *above, key = several.split(".")
        if place[: len(above) + 1] == (*above, key):
            inner = settings
            for name in above:
                inner = _table(inner, name)
            _put_several(inner, key, list(place[len(above) + 1 :]), value)
            return
    *tables, last = place
    inner = settings
    for name in tables[:-1] if last == "name" else tables:
        inner = _table(inner, name)
    if last == "name" and tables:
        _choose(inner, tables[-1], value)
    elif isinstance(inner.get(last), dict) and isinstance(value, str):
        _choose(inner, last, value)
    else:
        inner[last] = value


def _choose(settings: dict[str, Any], top: str, name: str) -> None:
    """Choose a kind; options given before stay, unless they were another kind's."""
    options = _table(settings, top)
    if options.get("name", name) != name:
        options.clear()
    options["name"] = name


def _put_several(settings: dict[str, Any], top: str, rest: list[str], value: Any) -> None:
    chosen = settings.setdefault(top, {})
    if not rest:
        settings[top] = {name: chosen.get(name, {}) for name in map(str, read_list(value))}
    elif len(rest) == 1:
        chosen[rest[0]] = value
    else:
        name, *options = rest
        inner = _table(chosen, name)
        inner[".".join(options)] = value


def _table(settings: dict[str, Any], key: str) -> dict[str, Any]:
    """Return the table at that key; a bare name there becomes a table with that name."""
    held = settings.setdefault(key, {})
    if not isinstance(held, dict):
        held = settings[key] = {"name": held}
    return held
