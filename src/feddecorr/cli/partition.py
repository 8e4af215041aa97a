"""The command that shows a split: who holds which labels, and how much clients differ."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from feddecorr.cli.console import JsonOption, TrustOption, print_json, print_table, print_text, say
from feddecorr.cli.run import Words
from feddecorr.config.overrides import read_overrides, said
from feddecorr.core.trust import Trust

SHADES = " ░▒▓█"
MOST_SHADED = 100


def partition(
    words: Words = None,
    out: Annotated[Path | None, typer.Option(help="JSON file to write the split to, for partition=file.")] = None,
    picture: Annotated[Path, typer.Option(help="HTML file to draw the split in.")] = Path("partition.html"),
    trust: TrustOption = False,
    json: JsonOption = False,
) -> None:
    """Split the data as 'run' would, draw who holds which labels, and print how much clients differ.

    Takes the same words as 'run'; only data, partition, clients and seed matter:

        feddecorr partition data=digits clients=10 partition=dirichlet partition.alpha=0.05

        feddecorr partition partition=classes partition.per_client=2 --out split.json

        feddecorr run partition=file partition.path=split.json
    """
    from feddecorr.partition.external import write_split  # noqa: PLC0415
    from feddecorr.partition.heterogeneity import Heterogeneity  # noqa: PLC0415
    from feddecorr.report import runs_page  # noqa: PLC0415
    from feddecorr.server.federation import Simulation  # noqa: PLC0415
    from feddecorr.settings.flat import parse_settings  # noqa: PLC0415 - PyTorch is loaded when it is needed

    experiment, _ = parse_settings(read_overrides(words or []), Trust(said(words or []), files=trust))
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
