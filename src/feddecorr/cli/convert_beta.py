"""The command that translates FedDecorr's beta between scales."""

from __future__ import annotations

from typing import Annotated

import typer

from feddecorr.cli.console import JsonOption, print_json, print_text
from feddecorr.loss.beta import LossScale
from feddecorr.loss.beta import convert_beta as convert


def convert_beta(  # noqa: PLR0913, PLR0917 - one parameter for each option of the command
    beta: Annotated[float, typer.Argument(help="The beta to translate.")],
    source: Annotated[str, typer.Option("--from", help="Its scale: paper or released.")],
    target: Annotated[str, typer.Option("--to", help="The scale to translate to: paper or released.")],
    batch: Annotated[int, typer.Option(help="Samples in a batch.")],
    dimensions: Annotated[int, typer.Option(help="Width of the representation.")],
    to_batch: Annotated[int | None, typer.Option(help="Samples in a batch there, if others.")] = None,
    to_dimensions: Annotated[int | None, typer.Option(help="Width of the representation there, if another.")] = None,
    json: JsonOption = False,
) -> None:
    """Translate FedDecorr's beta between the paper's formula and its authors' code, batch sizes and widths.

    'released' is what the authors' code computes, and the default here; 'paper' is equation 8. Whatever is another
    function of the representations is refused: no factor makes it the same.

    Example:  feddecorr convert-beta 0.1 --from released --to paper --batch 64 --dimensions 512
    """
    before = LossScale(source, batch, dimensions)
    there = batch if to_batch is None else to_batch, dimensions if to_dimensions is None else to_dimensions
    after = LossScale(target, *there)
    found = convert(beta, before, after)
    if json:
        scales = {"from": vars(before), "to": vars(after)}
        print_json({"beta": found, "given": beta, **scales, "weight": beta * before.weight})
        return
    print_text(f"{found:.6g}")
