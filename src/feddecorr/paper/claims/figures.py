"""Figures of the claims: a forest plot of every part, and the paired gains by round."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from feddecorr.errors import UserError
from feddecorr.paper.claims.claim import ANSWERS, POINTS, Claim, ClaimPart
from feddecorr.paper.claims.evidence import PRIMARY
from feddecorr.report.picture import ACROSS, Panel, Picture, Series
from feddecorr.results.sample import Sample
from feddecorr.results.summary import STATISTICS

WIDTH, ROW = 11.0, 0.14
"""Inches: the width of the figures, and the height of a row of the forest plot."""

HEIGHT = 1.9
"""Inches: the height of a row of panels."""

MARGIN = 1.0
"""Inches of a figure's height that are not rows."""

PAPER = "the paper's value"
FACTORS = "other effects"


def forest(claims: Sequence[Claim]) -> Picture:
    """Return the forest plot of all parts with seeds: a column for each statistic of accuracy, one for other effects.

    Accuracy is in percentage points. Ratios, such as those of ranks, are in doublings: the binary logarithm.
    """
    parts = [(claim.number, part) for claim in claims for part in claim.parts if isinstance(part, ClaimPart)]
    if not parts:
        raise UserError("no record answers a claim, so there is nothing to draw: name folders or files of records")
    names = [f"{number}: {part.says}" for number, part in parts]
    panels = [
        Panel(text, _rows(parts, name), names=((), names), axis="percentage points")
        for name, text in STATISTICS.items()
    ]
    panels.append(Panel(FACTORS, _rows(parts, FACTORS), names=((), names), axis="doublings"))
    return Picture(
        "forest",
        "Every part of every claim",
        "Mean over paired seeds and 95 % interval.",
        ("", ""),
        panels,
        origin=True,
        across=len(panels),
        shared_x=False,
        size=(WIDTH, MARGIN + ROW * len(parts)),
    )


def _rows(parts: Sequence[tuple[str, ClaimPart]], column: str) -> list[Series]:
    """Return a series of points for each answer, and one of the paper's values."""
    known = {
        row: (part, sample)
        for row, (_, part) in enumerate(parts)
        if (sample := _sample(part, column)) is not None and sample.values
    }
    found = []
    for answer, name in ANSWERS.items():
        chosen = {row: sample for row, (part, sample) in known.items() if part.answer is answer}
        means, spread = [each.mean for each in chosen.values()], [_half_width(each) for each in chosen.values()]
        found.append(Series(means, list(chosen), name=name, points=True, spread=spread, sideways=True))
    papers = {row: 100 * part.paper for row, (part, _) in known.items() if part.paper is not None}
    return [*found, Series(list(papers.values()), list(papers), name=PAPER, points=True, marker="D")]


def _sample(part: ClaimPart, column: str) -> Sample | None:
    """Return what a part has in a column, in the column's unit."""
    if part.unit is not POINTS:
        return part.sample.times(1 / math.log(2)) if column == FACTORS else None
    found = part.sample if column == PRIMARY else part.also.get(column)
    return None if found is None else found.times(100)


def _half_width(sample: Sample) -> float:
    """Return half of the interval; of a single seed, which has none, nothing."""
    return sample.half_width if math.isfinite(sample.half_width) else 0.0


def gains_by_round(claims: Sequence[Claim]) -> Picture:
    """Return the paired gain in accuracy by round, a panel for each part that is about one pair of arms.

    The band is the 95 % interval of the mean of the differences over seeds. Parts with the same runs share a panel.
    """
    found = [
        (claim.number, part, part.pair)
        for claim in claims
        for part in claim.parts
        if isinstance(part, ClaimPart) and part.pair is not None
    ]
    panels = []
    for key, (part, pair) in {pair.key: (part, pair) for _, part, pair in reversed(found)}.items():
        numbers = ", ".join(number for number, _, other in found if other.key == key)
        panels.append(Panel(f"{numbers}: {part.says}", [_gain(pair.gain_by_round())]))
    panels.reverse()
    if not panels:
        raise UserError("no pair of runs without and with FedDecorr answers a claim: there is no gain to draw")
    return Picture(
        "gains",
        "Paired gain by round",
        "Mean over paired seeds and 95 % interval.",
        ("round", "gain (percentage points)"),
        panels,
        threshold=(0.0, ""),
        shared_x=False,
        size=(WIDTH, MARGIN + HEIGHT * -(-len(panels) // ACROSS)),
    )


def _gain(rounds: Mapping[int, Sample]) -> Series:
    means = [100 * sample.mean for sample in rounds.values()]
    spread = [100 * _half_width(sample) for sample in rounds.values()]
    return Series(list(rounds), means, name="with FedDecorr − without", spread=spread)
