"""The command that keeps compact records of many runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from feddecorr.cli.choosing import Sources, WhereOption, choose_runs
from feddecorr.cli.console import JsonOption, print_json, print_text


def records(
    sources: Sources,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE.jsonl", help="The file to write.")],
    where: WhereOption = None,
    json: JsonOption = False,
) -> None:
    """Write what tables and figures need of many runs into one file, small enough for git.

    A line of JSON for each run: its settings and the command that does it again, the numbers of every round, the
    last spectrum, and where it ran. A run that is there more than once counts with its most rounds.

    Example:  feddecorr records studies/small/runs -o results/small.jsonl
    """
    from feddecorr.results.summary import write_summaries  # noqa: PLC0415 - see run

    summaries = choose_runs(sources, where)
    write_summaries(out, summaries)
    size = out.stat().st_size
    if json:
        print_json({"records": str(out.resolve()), "runs": len(summaries), "bytes": size})
    else:
        print_text(f"{out.resolve()}: {len(summaries)} runs, {size / 1e6:.2f} MB")
