"""The command that compares runs in pairs, seed by seed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from feddecorr.cli.choosing import Sources, WhereOption, choose_runs
from feddecorr.cli.console import JsonOption, number, print_json, print_table, say
from feddecorr.errors import UserError

if TYPE_CHECKING:
    from feddecorr.results.pairing import Comparison


def compare(
    sources: Sources,
    pair: Annotated[str, typer.Option(help="The setting in which the two runs of a pair differ.")] = "regularizers",
    by: Annotated[list[str] | None, typer.Option(help="A setting to tell groups apart by; repeat for more.")] = None,
    measure: Annotated[str, typer.Option(help="What is compared: accuracy, effective_rank, …")] = "accuracy",
    where: WhereOption = None,
    json: JsonOption = False,
) -> None:
    """Compare runs that are equal in everything but one setting, seed by seed.

    For the last round, the mean of the last ten and the best: the mean difference, its 95 % interval (Student's t),
    and in how many seeds the second was better. Runs that differ in other settings, too, are never mixed.

    Example:  feddecorr compare studies/small/runs --by method --pair regularizers
    """
    from feddecorr.results.pairing import compare_runs  # noqa: PLC0415 - PyTorch is loaded when it is needed

    summaries = choose_runs(sources, where)
    found = compare_runs(summaries, by=by or [], pair=pair, measure=measure)
    if not found:
        raise UserError(
            f"among {len(summaries)} runs with a finished round, no two are finished, equal in all settings but "
            f"'{pair}', and have the same seed"
        )
    if json:
        print_json([comparison.to_dict() for comparison in found])
        return
    labels = list(found[0].labels)
    rows = [row for comparison in found for row in _rows(comparison, labels)]
    print_table([*labels, "first", "second", "statistic", "difference", "95 % interval (t)", "wins"], rows)
    say(f"differences are second minus first, in {measure}")


def _rows(comparison: Comparison, labels: list[str]) -> list[list[str]]:
    who = [*(comparison.labels[label] for label in labels), comparison.first, comparison.second]
    return [
        [
            *who,
            name.replace("_", " "),
            number(paired.mean if paired.values else None),
            f"{paired.low:+.4f} … {paired.high:+.4f}" if len(paired) > 1 else number(None),
            f"{paired.wins} of {len(paired)}",
        ]
        for name, paired in comparison.statistics.items()
    ]
