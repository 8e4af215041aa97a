"""The command that prints the paper's figures of any runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from feddecorr.cli.choosing import Sources, WhereOption, choose_runs
from feddecorr.cli.console import JsonOption, print_json, print_text
from feddecorr.errors import UserError, nearest


def figure(
    name: Annotated[str, typer.Argument(help="The figure, see above.")],
    sources: Sources,
    out: Annotated[Path, typer.Option("--out", "-o", help="The file to write: .pdf, .svg or .png.")],
    panels: Annotated[
        list[str] | None, typer.Option(help="A setting that makes a panel of its own for each value; repeat for more.")
    ] = None,
    where: WhereOption = None,
    json: JsonOption = False,
) -> None:
    """Print one of the paper's figures of any runs, for a page of two columns.

    A line for each combination of settings that differ; several seeds are one line, their mean, with a band of one
    standard deviation. Colours can be told apart by colour-blind readers, fonts are embedded.

        feddecorr figure spectra runs -o spectra.pdf

        feddecorr figure accuracy runs --where 'method = fedavg' --panels partition.alpha -o accuracy.svg

    There are: spectra, local-spectra, client-spectra (these two need evaluation.clients=true), accuracy, rank, beta,
    loss (needs evaluation.epochs=true), labels and sphere (these two need the runs themselves; all others can be
    drawn from records).
    """
    from feddecorr.report.printed import refuse_unprintable, save  # noqa: PLC0415
    from feddecorr.report.run_figures import FIGURES, FigureData  # noqa: PLC0415 - PyTorch is loaded when needed
    from feddecorr.results.summary import run_directories  # noqa: PLC0415

    if name not in FIGURES:
        raise UserError(f"there is no figure '{name}': {nearest(name, FIGURES)}")
    refuse_unprintable(out)
    summaries = choose_runs(sources, where)
    folders = [path for source in sources if source.is_dir() for path in run_directories(source)]
    save(FIGURES[name](FigureData(summaries, addresses(folders), panels or ())), out)
    if json:
        print_json({"figure": str(out.resolve()), "runs": len(summaries)})
    else:
        print_text(str(out.resolve()))


def addresses(folders: list[Path]) -> dict[str, Path]:
    """Return the directories of runs by their digests."""
    from feddecorr.runs.directory import RunDirectory  # noqa: PLC0415 - PyTorch is loaded when it is needed

    return {RunDirectory.open(folder).settings()[0].digest(): folder for folder in folders}
