"""The page of a split: examples by client and class, and how much clients differ."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from feddecorr.partition.heterogeneity import MEANINGS, Heterogeneity, LabelCounts
from feddecorr.report import figures
from feddecorr.report.page import Section, write_page

CLIENT_HEADINGS = ("client", "examples", "classes", "effective classes", "distance")


def write_split_page(path: Path, found: Heterogeneity, counts: LabelCounts, classes: Sequence[str]) -> None:
    """Draw the numbers of examples by client and class, and list what was found of them."""
    which = figures.shown_clients(counts.clients)
    sections = [
        Section(
            "Examples by client and class",
            f"Training examples per client and class.{which}",
            figures.labels(counts, classes),
        ),
        Section(
            "Heterogeneity",
            "Means over the clients, each of which counts the same.",
            headings=["measure", "value", "what it is"],
            rows=summary_rows(found),
        ),
        Section(
            "Clients", f"The same measures for each client.{which}", headings=CLIENT_HEADINGS, rows=client_rows(found)
        ),
    ]
    write_page(
        path, "Split of the training data", "Which client holds which labels, and how much clients differ.", sections
    )


def client_rows(found: Heterogeneity) -> list[list[str]]:
    """Return the table of the first clients, one row each."""
    columns = zip(found.sizes, found.classes, found.effective_classes, found.distance, strict=True)
    return [
        [str(client), str(size), str(classes), f"{effective:.2f}", f"{distance:.2f}"]
        for client, (size, classes, effective, distance) in enumerate(islice(columns, figures.SHOWN_CLIENTS))
    ]


def summary_rows(found: Heterogeneity) -> list[list[str]]:
    """Return the table of the measures over all clients, with what they are."""
    return [
        [name.replace("_", " "), f"{value:.3f}" if isinstance(value, float) else str(value), MEANINGS[name]]
        for name, value in found.summary().items()
    ]
