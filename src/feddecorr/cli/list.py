"""The command that lists everything that can be chosen by name, with its options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from feddecorr.cli.console import JsonOption, print_json, print_table, say
from feddecorr.config.overrides import SEVERAL
from feddecorr.core.registry import Config
from feddecorr.errors import UserError, nearest

Kinds = Mapping[str, type[Config]]


def list_configs(
    family: Annotated[
        str | None,
        typer.Argument(
            help="data, partition, model, method, regularizers, transforms, engine, trackers, optimizer, schedule, "
            "measures, training or evaluation; experiment or options for the top-level settings; or one name, such as "
            "fedprox; everything by default."
        ),
    ] = None,
    json: JsonOption = False,
) -> None:
    """List everything that can be chosen by name; for one family or one name, with all options.

    For example:

        feddecorr list methods
        feddecorr list fedprox
    """
    from feddecorr.config.experiment import Experiment
    from feddecorr.config.training import CHOICES, Evaluation, Training
    from feddecorr.settings.options import REGISTRIES, RunOptions

    tables: dict[str, Kinds] = {setting: found.table for setting, found in REGISTRIES.items()}
    tables |= {setting: found.table for setting, found in CHOICES.items()}
    tables |= {"training": {"training": Training}, "evaluation": {"evaluation": Evaluation}}
    tables |= {"experiment": {"experiment": Experiment}, "options": {"options": RunOptions}}
    chosen = tables if family is None else _find(family, tables)
    if json:
        print_json({setting: _describe(found) for setting, found in chosen.items()})
    elif family is None:
        rows = [[setting, name, cls.line()] for setting, found in chosen.items() for name, cls in found.items()]
        print_table(["setting", "name", "what it is"], rows)
        say("'feddecorr list NAME' shows a family's options, e.g. 'feddecorr list partition'.")
    else:
        _print_options(chosen)


def _find(word: str, tables: Mapping[str, Kinds]) -> dict[str, Kinds]:
    """Return a family, in singular or plural, or all that has that name in any."""
    small = word.lower()
    for setting, table in tables.items():
        if small.rstrip("s") in (setting.rstrip("s"), setting.rpartition(".")[2].rstrip("s")):
            return {setting: table}
    named: dict[str, Kinds] = {setting: {small: table[small]} for setting, table in tables.items() if small in table}
    if not named:
        names = {name for table in tables.values() for name in table}
        raise UserError(f"there is nothing called '{word}' to list: {nearest(small, {*tables, *names})}")
    return named


def _describe(table: Kinds) -> dict[str, Any]:
    return {
        name: {"description": cls.line(), "options": {key: _option(cls, key) for key in cls.model_fields}}
        for name, cls in table.items()
    }


def _option(cls: type[Config], key: str) -> dict[str, Any]:
    field = cls.model_fields[key]
    default = None if field.is_required() else field.get_default(call_default_factory=True)
    if isinstance(default, Config):
        default = type(default).__name__.lower()
    return {
        "default": str(default) if isinstance(default, float) and default == float("inf") else default,
        "required": field.is_required(),
        "description": field.description or "",
    }


def _print_options(tables: Mapping[str, Kinds]) -> None:
    rows = []
    described_all = [(setting, *each) for setting, table in tables.items() for each in _describe(table).items()]
    for setting, name, described in described_all:
        rows.append([setting if name == setting else f"{setting}={name}", "", described["description"]])
        prefix = f"{setting}.{name}" if setting in SEVERAL else setting
        for key, option in described["options"].items():
            default = "(required)" if option["required"] else str(option["default"])
            rows.append([f"  {prefix}.{key}", default, option["description"]])
    print_table(["setting", "default", "what it is"], rows)
