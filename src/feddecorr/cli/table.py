"""The command that makes a table of any runs."""

from __future__ import annotations

from typing import Annotated

import typer

from feddecorr.cli.choosing import Sources, WhereOption, choose_runs
from feddecorr.cli.console import JsonOption, print_json, print_table, print_text, say
from feddecorr.errors import UserError, nearest


def table(  # noqa: PLR0913, PLR0917 - one parameter for each option of the command
    sources: Sources,
    where: WhereOption = None,
    by: Annotated[list[str] | None, typer.Option(help="A setting to group by, first; repeat for more.")] = None,
    columns: Annotated[str | None, typer.Option(help="A setting whose values become columns.")] = None,
    measure: Annotated[str, typer.Option(help="What is shown: accuracy (in percent), effective_rank, …")] = "accuracy",
    statistic: Annotated[
        str, typer.Option(help="With --columns: last (round), last_ten (mean of them) or best.")
    ] = "last",
    format: Annotated[  # noqa: A002 - the option's name
        str | None, typer.Option(help="markdown, latex or csv; without it, plain columns.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Print mean ± standard deviation over seeds of any runs, grouped by what differs between them.

    The largest mean of each column is bold (in plain columns, it has an asterisk). Runs that differ in anything but
    the seed are never mixed.

        feddecorr table runs --by method --columns partition.alpha --format latex

        feddecorr table results/small.jsonl --where 'method = fedavg' --measure effective_rank
    """
    from feddecorr.results.tables import FORMATS, tabulate, to_text  # noqa: PLC0415 - PyTorch, when it is needed

    if format is not None and format not in FORMATS:
        raise UserError(f"--format is one of {', '.join(FORMATS)}: {nearest(format, FORMATS)}")
    found = tabulate(choose_runs(sources, where), by=by or [], columns=columns, measure=measure, statistic=statistic)
    if json:
        print_json(found.to_dict())
    elif format is None:
        print_table(found.headings, to_text(found))
        say(f"{measure}{' in percent' * (measure == 'accuracy')}, mean ± standard deviation over seeds; * is the best")
    else:
        print_text(FORMATS[format](found))
