"""What the clients of a round did to its models, as sections of a page: averaging, and who is to blame."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import plotly.graph_objects as go

from feddecorr.collapse import averaging, contributions
from feddecorr.collapse.averaging import AveragedRound
from feddecorr.collapse.contributions import Blame
from feddecorr.report import figures
from feddecorr.report.page import Section

SHARE = "share of the way from the client's model (0) to the average (1)"


def averaging_sections(found: AveragedRound) -> Iterator[Section]:
    """Yield what averaging did: in words, in tables, along the way to the average and layer by layer."""
    said = " ".join(found.answer())
    text = f"{said} The tail is the share of the variance beyond as many directions as the classes need."
    yield Section(f"Averaging: {found.name}", text, headings=averaging.HEADINGS, rows=found.rows())
    text = "Models on the straight way from a client's to the average, all weights and statistics mixed by that share."
    ranks = {f"client {way.client}": (way.shares, way.effective_ranks) for way in found.ways}
    yield Section(f"The way to the average: {found.name}", text, figure=_lines(ranks, SHARE, "effective rank"))
    right = {f"client {way.client}": (way.shares, way.accuracies) for way in found.ways}
    yield Section(f"Accuracy on the way: {found.name}", text, figure=_lines(right, SHARE, "accuracy"))
    if found.layers:
        text = (
            "Effective rank of what goes into each layer, averaged over positions: the geometric mean of the clients' "
            "models, and their average."
        )
        local, average = zip(*found.layers.values(), strict=True)
        groups: dict[str, Sequence[float | None]] = {"mean of the clients' models": local, "their average": average}
        figure = figures.bars(groups, list(found.layers), "layer", "effective rank of its input")
        headings, rows = averaging.LAYER_HEADINGS, found.layer_rows()
        yield Section(f"Layer by layer: {found.name}", text, figure=figure, headings=headings, rows=rows)


def blame_section(found: Blame) -> Section:
    """Return who lost how many dimensions, and by how many the average would have more without whom."""
    text = (
        f"{' '.join(found.answer())} Dimensions are effective ranks: of the model that was sent, of the client's after "
        "training, on all images and on those of the classes that it holds, and of the average of all others."
    )
    groups: dict[str, Sequence[float | None]] = {
        "lost in its training": [each.lost for each in found.suspects],
        "lost on its own classes": [each.own_lost for each in found.suspects],
        "what the average has more without it": [found.raised(each) for each in found.suspects],
    }
    figure = figures.bars(groups, [str(each.client) for each in found.suspects], "client", "dimensions")
    return Section(
        f"Who is to blame: {found.name}", text, figure=figure, headings=contributions.HEADINGS, rows=found.rows()
    )


def _lines(lines: Mapping[str, tuple[Sequence[float], Sequence[float | None]]], x: str, y: str) -> go.Figure:
    known = {
        name: [(place, value) for place, value in zip(places, values, strict=True) if value is not None]
        for name, (places, values) in lines.items()
    }
    bands = {
        name: ([place for place, _ in points], [value for _, value in points], [0.0] * len(points))
        for name, points in known.items()
    }
    return figures.bands(bands, x, y)
