"""Any runs as cells: those that differ in nothing but the seed are one, and what tells cells apart is found."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from feddecorr.config.overrides import flatten
from feddecorr.errors import UserError
from feddecorr.results.cells import Cell
from feddecorr.results.contexts import Context, by_seed, context, covers, differing
from feddecorr.results.study import Label
from feddecorr.results.summary import Summary


def group_runs(summaries: Sequence[Summary], asked: Sequence[str] = ()) -> list[Cell]:
    """Return the runs by what differs between them, with labels by setting; those that are asked for come first.

    Cells come in the order of their labels, numbers by size.
    """
    groups: dict[Context, list[Summary]] = {}
    for run in summaries:
        groups.setdefault(context(run), []).append(run)
    settings = _settings(list(groups), asked)
    known = {key for run in summaries for key in flatten(run.settings)}
    for name in asked:
        if not any(covers(name, key) for key in known):
            raise UserError(f"no run has a setting '{name}': choose one such as method, regularizers, partition.alpha")
    varied = _varied(groups)
    cells = []
    for runs in groups.values():
        seeds = by_seed(runs)
        cells.append(Cell({name: _value(runs[0], name, varied) for name in settings}, seeds, len(seeds)))
    return sorted(cells, key=lambda cell: [_rank(value) for value in cell.labels.values()])


def name_cell(cell: Cell, settings: Sequence[str]) -> str:
    """Return what a cell has for these settings, in a few words."""
    known = [(name, cell.labels[name]) for name in settings]
    return ", ".join(f"{short_name(name)} {value}" if _is_number(value) else str(value) for name, value in known)


def short_name(setting: str) -> str:
    """Return the last part of a dotted setting: `alpha` for `partition.alpha`, `method` for `method.name`."""
    return setting.removesuffix(".name").rpartition(".")[2]


def _settings(contexts: Sequence[Context], asked: Sequence[str]) -> list[str]:
    """Return the names that tell contexts apart: keys that all of them have, and else the tables of which they are."""
    found = list(asked)
    for key in differing(contexts):
        everywhere = all(key in dict(each) for each in contexts)
        name = key if everywhere else key.partition(".")[0]
        if not any(covers(known, key) for known in found):
            found = [known for known in found if known in asked or not covers(name, known)] + [name]
    return found


def _varied(contexts: Mapping[Context, object]) -> set[str]:
    """Return the keys that have several values among the contexts that have them."""
    values: dict[str, set[str]] = {}
    for each in contexts:
        for key, value in each:
            values.setdefault(key, set()).add(value)
    return {key for key, found in values.items() if len(found) > 1}


def _value(run: Summary, setting: str, varied: set[str]) -> Label:
    """Return the value of a setting; of a table, the names in it, with options only where these vary."""
    value = run.settings.get(setting, flatten(run.settings).get(setting, "–"))
    if value == "Infinity":  # as settings are written
        return "inf"
    if not isinstance(value, Mapping):
        return value if isinstance(value, int | float) and not isinstance(value, bool) else str(value)
    names = [str(value["name"])] if "name" in value else list(value)
    options = [
        f"{short_name(key)} {option}"
        for key, option in flatten(value).items()
        if f"{setting}.{key}" in varied and not f".{key}".endswith(".name")
    ]
    return " ".join(["+".join(names) or "none", *options])


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) or value == "inf"


def _rank(value: Any) -> tuple[int, float, str]:
    """Put nothing first, then numbers by size, then words."""
    if value == "none":
        return 0, 0.0, ""
    number = math.inf if value == "inf" else value
    return (1, float(number), "") if isinstance(number, int | float) else (2, 0.0, str(value))
