"""Commands that need no training: the split, the privacy budget, and beta in another scale."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from feddecorr.cli.console import JsonOption, TrustOption, Words, print_json, print_result, print_table, print_text, say
from feddecorr.config.overrides import said
from feddecorr.core.trust import CLOSED, Trust
from feddecorr.loss.beta import LossScale
from feddecorr.loss.beta import convert_beta as convert

SHADES = " ░▒▓█"
MOST_SHADED = 100


def partition(
    words: Words = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="JSON file for the split, to be read by partition=file.")
    ] = None,
    picture: Annotated[Path, typer.Option(help="HTML file for the picture of the split.")] = Path("partition.html"),
    trust: TrustOption = False,
    json: JsonOption = False,
) -> None:
    """Split the data as 'run' would, draw the clients' label counts, and measure how much clients differ.

    Takes the same settings as 'run'; only data, partition, clients and seed matter:

        feddecorr partition data=digits clients=10 partition=dirichlet alpha=0.05
        feddecorr partition partition=classes per_client=2 --out split.json
        feddecorr run partition=file partition.path=split.json
    """
    from feddecorr.partition.external import write_split
    from feddecorr.partition.heterogeneity import Heterogeneity
    from feddecorr.report import runs_page
    from feddecorr.server.federation import Simulation
    from feddecorr.settings.flat import parse_settings
    from feddecorr.settings.short_keys import read_settings

    trusted = Trust(said(words or []), files=trust)
    experiment, _ = parse_settings(read_settings(words or [], trust=trusted), trusted)
    simulation = Simulation(experiment)
    classes, counts = simulation.task.classes, simulation.labels
    found = Heterogeneity.of(counts.table())
    if out is not None:
        write_split(out, simulation.shards.parts)
        say(f"split: {out.resolve()}")
    runs_page.write_split_page(picture, found, counts, classes)
    if json:
        print_json(
            {
                "heterogeneity": found.summary(),
                "classes": list(classes),
                "counts": counts.table().tolist(),
                "split": None if out is None else str(out.resolve()),
                "picture": str(picture.resolve()),
            }
        )
        return
    headings, rows = [*runs_page.CLIENT_HEADINGS], runs_page.client_rows(found)
    if len(classes) <= MOST_SHADED:
        headings.append("labels")
        most = max(1, int(counts.count.max()))
        for row, held in zip(rows, counts.table(len(rows)).tolist(), strict=True):
            row.append(f"|{''.join(SHADES[-(-count * (len(SHADES) - 1) // most)] for count in held)}|")
    print_table(headings, rows)
    if len(rows) < counts.clients:
        say(f"these are the first {len(rows)} of {counts.clients} clients; --json prints them all")
    print_text("")
    print_table(["heterogeneity", "", "what it is"], runs_page.summary_rows(found))
    say(f"picture: {picture.resolve()}")


def privacy(
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="DIR | [FILE.toml] [KEY=VALUE]...", help="A run, or the settings of a planned one."),
    ] = None,
    delta: Annotated[float | None, typer.Option(help="By default, 1 / (10 × clients).")] = None,
    json: JsonOption = False,
) -> None:
    r"""Print the client-level differential privacy (epsilon, delta) that a run has spent, or will spend.

    Of settings, as they would be run, or of a run, as far as it has come:

        feddecorr privacy clients=1000 participation=0.05 rounds=100 \
            transforms=private
        feddecorr privacy runs/a --delta 1e-5
    """
    from feddecorr.runs.directory import RunDirectory
    from feddecorr.server.accounting import privacy_spent
    from feddecorr.settings.flat import parse_settings
    from feddecorr.settings.short_keys import read_settings
    from feddecorr.transforms.private import Privacy

    said = words or []
    if len(said) == 1 and Path(said[0]).is_dir():
        run = RunDirectory.open(said[0])
        experiment, rounds = run.settings()[0], run.finished_rounds()
    else:
        experiment, options = parse_settings(read_settings(said, trust=CLOSED), CLOSED)
        rounds = options.rounds
    spent = privacy_spent(experiment, rounds, delta)
    if json:
        print_json(spent.to_dict())
        return
    guarantee = f"epsilon {spent.epsilon:.3f} at delta {spent.delta:.3g}"
    print_text(f"{guarantee} after {spent.rounds} rounds: {spent.neighbours}")
    if spent.epsilon_if_drawn != spent.epsilon:
        say(f"for a client known to have been sampled in every round, epsilon is {spent.epsilon_if_drawn:.3f}")
    for name, transform in experiment.transforms.items():
        if isinstance(transform, Privacy) and transform.seed is not None:
            say(f"transforms.{name}.seed={transform.seed}: whoever knows it can remove the noise")


def convert_beta(  # noqa: PLR0913, PLR0917 - one parameter for each option of the command
    beta: Annotated[float, typer.Argument(help="The beta to convert.")],
    source: Annotated[str, typer.Option("--from", metavar="SCALE", help="Its scale: paper or released.")],
    target: Annotated[str, typer.Option("--to", metavar="SCALE", help="The scale to convert to: paper or released.")],
    batch: Annotated[int, typer.Option(help="Batch size.")],
    dimensions: Annotated[int, typer.Option(help="Width of the representation.")],
    to_batch: Annotated[int | None, typer.Option(help="Batch size there, if another.")] = None,
    to_dimensions: Annotated[int | None, typer.Option(help="Width of the representation there, if another.")] = None,
    json: JsonOption = False,
) -> None:
    r"""Convert FedDecorr's beta between the paper's formula and its authors' code, batch sizes and widths.

    'released' is what the authors' code computes, and the default here; 'paper' is equation 8. Where the two losses
    differ by more than a factor, the conversion is refused.

        feddecorr convert-beta 0.1 --from released --to paper --batch 64 \
            --dimensions 512
    """
    before = LossScale(source, batch, dimensions)
    there = batch if to_batch is None else to_batch, dimensions if to_dimensions is None else to_dimensions
    after = LossScale(target, *there)
    found = convert(beta, before, after)
    scales = {"from": vars(before), "to": vars(after)}
    print_result(f"{found:.6g}", {"beta": found, "given": beta, **scales, "weight": beta * before.weight}, json=json)
