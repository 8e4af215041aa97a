"""The command that shows a split: who holds which labels, and how much clients differ."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from feddecorr.cli.console import JsonOption, number, print_json, print_table, print_text, say
from feddecorr.cli.run import Words
from feddecorr.settings.words import read_words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from feddecorr.partition.heterogeneity import Heterogeneity

SHADES = " ░▒▓█"
MOST_SHADED = 100
MEANINGS = {
    "clients": "number of clients",
    "examples": "training examples that they hold together",
    "smallest": "examples of the smallest client",
    "largest": "examples of the largest client",
    "gini_of_sizes": "0: all clients hold equally many; near 1: one holds nearly all",
    "mean_classes": "classes that a client holds at all",
    "mean_label_entropy": "entropy of a client's labels, in nats",
    "mean_effective_classes": "equally frequent classes with a client's label entropy",
    "mean_distance": "total variation distance of a client's labels to all labels, from 0 to 1",
}


def partition(
    words: Words = None,
    out: Annotated[Path | None, typer.Option(help="JSON file to write the split to, for partition=file.")] = None,
    picture: Annotated[Path, typer.Option(help="HTML file to draw the split in.")] = Path("partition.html"),
    json: JsonOption = False,
) -> None:
    """Split the data as 'run' would, draw who holds which labels, and print how much clients differ.

    Takes the same words as 'run'; only data, partition, clients and seed matter:

        feddecorr partition data=digits clients=10 partition=dirichlet partition.alpha=0.05

        feddecorr partition partition=classes partition.per_client=2 --out split.json

        feddecorr run partition=file partition.path=split.json
    """
    from feddecorr.federation import Simulation  # noqa: PLC0415
    from feddecorr.partition.heterogeneity import Heterogeneity  # noqa: PLC0415
    from feddecorr.partition.split_file import write_split  # noqa: PLC0415
    from feddecorr.settings.experiment import Experiment  # noqa: PLC0415 - PyTorch is loaded when it is needed

    simulation = Simulation(Experiment.parse(read_words(words or [])))
    classes, counts = simulation.task.classes, simulation.labels
    found = Heterogeneity.of(counts)
    if out is not None:
        write_split(out, simulation.shards.parts)
        say(f"split: {out.resolve()}")
    _draw(picture, found, counts.tolist(), classes)
    if json:
        print_json(
            {
                "heterogeneity": found.summary(),
                "classes": list(classes),
                "counts": counts.tolist(),
                "split": None if out is None else str(out.resolve()),
                "picture": str(picture.resolve()),
            }
        )
        return
    headings, rows = _clients(found)
    if len(classes) <= MOST_SHADED:
        headings.append("labels")
        most = max(1, int(counts.max()))
        for row, held in zip(rows, counts.tolist(), strict=True):
            row.append(f"|{''.join(SHADES[-(-count * (len(SHADES) - 1) // most)] for count in held)}|")
    print_table(headings, rows)
    print_text("")
    print_table(["heterogeneity", "", "what it is"], _summary(found))
    say(f"picture: {picture.resolve()}")


def _clients(found: Heterogeneity) -> tuple[list[str], list[list[str]]]:
    headings = ["client", "examples", "classes", "effective classes", "distance"]
    rows = [
        [str(client), str(size), str(classes), number(effective, 2), number(distance, 2)]
        for client, (size, classes, effective, distance) in enumerate(
            zip(
                found.sizes.tolist(),
                found.classes.tolist(),
                found.effective_classes.tolist(),
                found.distance.tolist(),
                strict=True,
            )
        )
    ]
    return headings, rows


def _summary(found: Heterogeneity) -> list[list[str]]:
    return [[name.replace("_", " "), number(value, 3), MEANINGS[name]] for name, value in found.summary().items()]


def _draw(path: Path, found: Heterogeneity, counts: Sequence[Sequence[int]], classes: Sequence[str]) -> None:
    from feddecorr.report import figures  # noqa: PLC0415 - plotly is loaded when it is needed
    from feddecorr.report.page import Section, write_page  # noqa: PLC0415

    headings, rows = _clients(found)
    sections = [
        Section("Who holds which labels", "Training examples per client and class.", figures.labels(counts, classes)),
        Section(
            "Heterogeneity",
            "Means over the clients, each of which counts the same.",
            headings=["measure", "value", "what it is"],
            rows=_summary(found),
        ),
        Section("Clients", "The same measures for each client.", headings=headings, rows=rows),
    ]
    write_page(path, "Split of the training data", "Who holds which labels, and how much clients differ.", sections)
