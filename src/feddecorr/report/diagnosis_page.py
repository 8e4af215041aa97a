"""The page of a diagnosis and of a round's averaging, and its figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import plotly.graph_objects as go
import torch
from numpy.typing import NDArray
from torch.nn.functional import normalize

from feddecorr.collapse.averaging import AveragedRound, Blame
from feddecorr.collapse.diagnosis import MEANINGS, Diagnosis, find_reference, rows
from feddecorr.collapse.spectrum import SHOWN_VALUES
from feddecorr.collapse.updates import UpdatedRound
from feddecorr.errors import UserError
from feddecorr.report import figures
from feddecorr.report.page import Section, write_page
from feddecorr.report.picture import SPECTRUM, THRESHOLD, Panel, Picture
from feddecorr.results.curves import band

DRAWN = 1500
"""Enough points to show the shape of a sphere; a page with several of them stays small."""

SPHERES = 7
"""A browser draws at most sixteen figures in three dimensions on one page, and each model has two."""

LEAD = (
    "A model has collapsed when its representations lie in few of their dimensions: then the singular values of "
    "their covariance fall off quickly. Each line is one model."
)


def write_diagnosis(found: Sequence[Diagnosis], path: Path, further: Sequence[Section] = ()) -> None:
    """Write the page of any number of diagnoses, and further sections."""
    write_page(path, "Has my model collapsed?", LEAD, [*_sections(found), *further])


def _sections(found: Sequence[Diagnosis]) -> Iterator[Section]:
    yield Section("The answer", "", blocks=dict(_answers(found)))
    whole = [each for each in found if each.client is None]
    text = f"Logarithms of the singular values of the covariance, largest first; at most {SHOWN_VALUES}."
    yield Section("Spectra", text, figure=figures.spectra({each.name: each.singular_values for each in whole}))
    if local := [each for each in found if each.client is not None]:
        yield Section("Local models", "The same for each client's model before averaging.", figure=grid(local))
    yield from _model_sections(whole)
    tables = [{row[0]: row[1] for row in rows(each)} for each in found]
    lines = [
        [name, *(table.get(name, "–") for table in tables), text]
        for name, text in MEANINGS.items()
        if any(name in table for table in tables)
    ]
    yield Section("Every measure", "", headings=["measure", *(each.name for each in found), "what it is"], rows=lines)


def _answers(found: Sequence[Diagnosis]) -> Iterator[tuple[str, list[str]]]:
    """Yield each model's name, and the sentences of the answer without it."""
    for each in found:
        said = each.answer(find_reference(each, found))
        bare = [sentence.removeprefix(f"{each.name}: ") for sentence in said]
        yield each.name, [sentence[:1].upper() + sentence[1:] for sentence in bare]


def _model_sections(whole: Sequence[Diagnosis]) -> Iterator[Section]:
    """Yield the figures of single models, those of all models in columns."""
    labelled = [each for each in whole if each.gathered and each.classes is not None and each.dimensions >= 3]
    first = labelled[:SPHERES]
    more = f" Of {len(labelled)} models, the first {SPHERES} are shown." if len(labelled) > SPHERES else ""
    sections = {
        "Spheres": (
            f"Samples on the unit sphere of the three strongest directions, by class.{more}",
            {each.name: sphere(each) for each in first},
        ),
        "Three classes": (f"The three largest classes alone.{more}", {each.name: sphere(each, 3) for each in first}),
        "Classes": (
            "Angles between class means, in degrees. Neural collapse makes all of them equal and wide.",
            {each.name: angles(each) for each in whole if each.class_mean_angles and len(each.class_mean_angles) > 1},
        ),
        "Classifiers": (
            "|u·v| of the representation's principal directions and the classifier's right singular vectors.",
            {each.name: alignments(each) for each in whole if each.classifier_alignments},
        ),
        "Layers": (
            "Singular values of the weights of each layer, largest first.",
            {
                each.name: figures.spectra(each.layer_singular_values, threshold=False)
                for each in whole
                if each.layer_singular_values
            },
        ),
    }
    for heading, (text, drawn) in sections.items():
        if drawn:
            yield Section(heading, text, figures=drawn)


def sphere_points(diagnosis: Diagnosis, largest: int | None = None) -> dict[str, NDArray[np.float64]]:
    """Return points (n, 3) of length 1 by class, the class with the most samples first; all in one without labels.

    Features are projected to the three strongest principal directions of what is drawn, and scaled to length 1.
    With `largest`, only the samples of that many classes are taken, those with the most samples.
    """
    if diagnosis.gathered is None or diagnosis.principal is None:
        raise UserError(f"no samples of '{diagnosis.name}' were kept to be drawn")
    if diagnosis.dimensions < 3:
        raise UserError(f"'{diagnosis.name}' has {diagnosis.dimensions} dimensions: a sphere takes three")
    sample = diagnosis.gathered.sample.batch
    classes = diagnosis.per_class_samples or {}
    shown = sorted(classes, key=lambda label: (-classes[label], int(label)))[: largest or len(classes)]
    labels = torch.zeros(len(sample.z)) if sample.labels is None else sample.labels.cpu()
    kept = torch.isin(labels, torch.tensor([int(label) for label in shown])) if shown else labels == 0
    z, labels = sample.z.cpu().double()[kept], labels[kept]
    centred = z - z.mean(0)
    axes = torch.linalg.svd(centred, full_matrices=False).Vh[:3] if largest else diagnosis.principal.directions[:, :3].T
    points = normalize(centred @ axes.cpu().T, eps=torch.finfo(torch.float64).tiny)
    step = max(1, -(-len(points) // DRAWN))
    points, labels = points[::step], labels[::step]
    return {f"class {label}": points[labels == int(label)].numpy() for label in shown} or {"class all": points.numpy()}


def grid(local: Sequence[Diagnosis], shown: int = SHOWN_VALUES) -> go.Figure:
    """Draw a panel for each client, with a line for each run, as in the paper's figure of all clients."""
    panels: dict[int, dict[str, Sequence[float]]] = {}
    for each in local:
        if each.client is None:
            raise UserError(f"'{each.name}' is not the model of a client")
        panels.setdefault(each.client, {})[each.reference or each.name] = each.singular_values
    drawn = [Panel(f"client {client}", figures.spectrum_series(panels[client], shown)) for client in sorted(panels)]
    return figures.draw(Picture("", "", "", SPECTRUM, drawn, threshold=THRESHOLD))


def sphere(diagnosis: Diagnosis, largest: int | None = None) -> go.Figure:
    """Draw samples on the unit sphere, by class, as in the paper's figure 1; with `largest`, only that many classes."""
    return figures.draw(Picture("", "", "", ("", ""), [Panel("", cloud=sphere_points(diagnosis, largest))]))


def angles(diagnosis: Diagnosis) -> go.Figure:
    """Draw the angles between class means."""
    if diagnosis.class_mean_angles is None or diagnosis.per_class_samples is None:
        raise UserError(f"no classes of '{diagnosis.name}' are known whose angles could be drawn")
    names = list(diagnosis.per_class_samples)
    return figures.heatmap(diagnosis.class_mean_angles, ("class", names), ("class", names))


def alignments(diagnosis: Diagnosis) -> go.Figure:
    """Draw how the classifier's singular vectors lie to the principal directions (the paper's Assumption 2)."""
    cells = diagnosis.classifier_alignments
    if not cells:
        raise UserError(f"'{diagnosis.name}' has no classifier whose directions could be drawn")
    across = [str(place + 1) for place in range(len(cells[0]))]
    down = [str(place + 1) for place in range(len(cells))]
    return figures.heatmap(cells, ("principal direction", across), ("singular vector of the classifier", down))


def _percent(share: float | None) -> float | None:
    return None if share is None else 100 * share


SHARE = "share of the way from the client's model (0) to the average (1)"


def averaging_sections(found: AveragedRound) -> Iterator[Section]:
    """Yield what averaging did, on the way to the average and layer by layer."""
    said = " ".join(found.answer())
    text = f"{said} The tail is the share of the variance beyond as many directions as the classes need."
    yield Section(f"Averaging: {found.name}", text, headings=found.HEADINGS, rows=found.rows())
    text = "Models on the straight way from a client's to the average, all weights and statistics mixed by that share."
    ranks = {f"client {way.client}": (way.shares, way.effective_ranks) for way in found.ways}
    yield Section(f"The way to the average: {found.name}", text, figure=_lines(ranks, SHARE, "effective rank"))
    right = {f"client {way.client}": (way.shares, list(map(_percent, way.accuracies))) for way in found.ways}
    yield Section(f"Accuracy on the way: {found.name}", text, figure=_lines(right, SHARE, "accuracy (%)"))
    if found.layers:
        text = (
            "Effective rank of what goes into each layer, averaged over positions: the geometric mean of the clients' "
            "models, and their average."
        )
        local, average = zip(*found.layers.values(), strict=True)
        groups: dict[str, Sequence[float | None]] = {"mean of the clients' models": local, "their average": average}
        figure = figures.bars(groups, list(found.layers), "layer", "effective rank of its input")
        headings, rows = found.LAYER_HEADINGS, found.layer_rows()
        yield Section(f"Layer by layer: {found.name}", text, figure=figure, headings=headings, rows=rows)


def updates_section(found: UpdatedRound) -> Section:
    """Return how many dimensions the changes of each layer have, of the clients' and of their average."""
    text = (
        f"{' '.join(found.answer())} Ranks of clients are geometric means; the alignment is the mean cosine between "
        "the changes of two clients."
    )
    groups: dict[str, Sequence[float | None]] = {
        "a client's change": [each.effective_rank for each in found.layers.values()],
        "the average of all": [each.averaged_effective_rank for each in found.layers.values()],
    }
    figure = figures.bars(groups, list(found.layers), "layer", "effective rank of its change")
    return Section(f"Updates: {found.name}", text, figure=figure, headings=found.HEADINGS, rows=found.rows())


def blame_section(found: Blame) -> Section:
    """Return how many dimensions each client lost, and how many more the average would have without it."""
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
    return Section(f"Who is to blame: {found.name}", text, figure=figure, headings=found.HEADINGS, rows=found.rows())


def _lines(lines: Mapping[str, tuple[Sequence[float], Sequence[float | None]]], x: str, y: str) -> go.Figure:
    known = {
        name: {place: value for place, value in zip(places, values, strict=True) if value is not None}
        for name, (places, values) in lines.items()
    }
    return figures.bands({name: band([points]) for name, points in known.items()}, x, y)
