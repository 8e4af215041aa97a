"""Which runs a command is about: those of some folders and records, or those among them that fulfil conditions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from feddecorr.errors import UserError

if TYPE_CHECKING:
    from feddecorr.results.summary import Summary

Sources = Annotated[
    list[Path], typer.Argument(metavar="DIR...", help="Runs, folders of runs, or records (.jsonl) of them.")
]
WhereOption = Annotated[
    list[str] | None,
    typer.Option(metavar="CONDITION", help="Only runs that fulfil it, as 'partition.alpha <= 0.1'; repeat for more."),
]


def choose_runs(sources: list[Path], where: list[str] | None) -> list[Summary]:
    """Return the records of the runs; refuse if there is none."""
    from feddecorr.results.conditions import Condition, by_name  # noqa: PLC0415
    from feddecorr.results.summary import read_summaries  # noqa: PLC0415 - PyTorch is loaded when it is needed

    conditions = [Condition(condition) for condition in where or []]
    found = read_summaries(sources)
    if not found:
        raise UserError(f"no run with a finished round in {', '.join(map(str, sources))}")
    if not conditions:
        return found

    def fulfils(summary: Summary) -> bool:
        settings = by_name(summary.settings)
        return all(condition.holds(settings) for condition in conditions)

    chosen = list(filter(fulfils, found))
    if not chosen:
        raise UserError(f"none of {len(found)} runs fulfils {' and '.join(f'“{word}”' for word in where or [])}")
    return chosen
