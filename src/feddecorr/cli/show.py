"""The command that shows a run, round by round."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from feddecorr.cli.console import JsonOption, number, print_json, print_table, print_text, say


def show(
    directory: Annotated[Path, typer.Argument(help="Directory of a run.")],
    json: JsonOption = False,
) -> None:
    """Print the table of a run, round by round.

    Example:  feddecorr show runs/a
    """
    from feddecorr.runs.directory import RunDirectory  # noqa: PLC0415 - PyTorch is loaded when it is needed

    run = RunDirectory.open(directory)
    if json:
        print_json(run.to_dict())
        return
    rounds = run.rounds()
    wanted = run.settings()[1].rounds
    if not rounds:
        print_text(f"{directory}: no round of {wanted} is finished; 'feddecorr resume {directory}' goes on")
        return
    terms = dict.fromkeys(term for record in rounds for term in record.terms)
    further = dict.fromkeys(name for record in rounds for name in record.measures)
    headings = ["round", "accuracy", "loss", "effective rank", "significant", *further, *terms, "missing", "seconds"]
    rows = [
        [
            str(record.round),
            number(record.accuracy),
            number(record.loss),
            number(record.effective_rank, 1),
            number(record.significant_singular_values),
            *(number(record.measures.get(name)) for name in further),
            *(number(record.terms.get(term)) for term in terms),
            number(len(record.missing) or None),
            number(record.seconds, 2),
        ]
        for record in rounds
    ]
    columns = [column for column in zip(headings, *rows, strict=True) if set(column[1:]) != {number(None)}]
    known, *lines = zip(*columns, strict=True)
    print_table(known, lines, title=f"{directory}: {len(rounds)} of {wanted} rounds")
    if len(rounds) < wanted:
        say(f"'feddecorr resume {directory}' goes on.")
