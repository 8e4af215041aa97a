"""The claims as the records answer them, with the paper's own numbers."""

from __future__ import annotations

import math
from functools import cache

from benchmarks.quotes.judgements import judge_in_words
from benchmarks.quotes.pairs import interval, summaries
from benchmarks.quotes.records import ROOT, record, table
from feddecorr.paper.claims import judge
from feddecorr.paper.claims.claim import ANSWERS, FAILS, HOLDS, OPEN, PARTLY, POINTS, Claim, ClaimPart, Fact
from feddecorr.paper.claims.evidence import PLAN, read_plan
from feddecorr.results.sample import Sample

COMPUTED = ("16", "17")
"""Claims that are computed on the spot, with other last digits on other processors: no numbers are quoted."""


@cache
def judged() -> list[Claim]:
    """Return all claims, judged by the declared plan."""
    costs = [record(f"results/{name}.json") for name in ("loss_cost", "methods_cost")]
    return judge(summaries(), costs, read_plan(ROOT / "results" / PLAN))


def claims() -> str:
    """Return every part of every claim that has seeds: the effect by the primary statistic and by the others."""
    head = [
        "claim",
        "part",
        "answer",
        "seeds",
        "last round",
        "p",
        "corrected",
        "last ten",
        "best",
        "transient",
        "paper",
    ]
    rows = [
        [claim.number, part.says, ANSWERS[part.answer], *_numbers(part)]
        for claim in judged()
        for part in claim.parts
        if isinstance(part, ClaimPart)
    ]
    return table(head, rows, words=3)


def _numbers(part: ClaimPart) -> list[str]:
    others = [_effect(part, part.also[name]) if name in part.also else "" for name in ("last_ten", "best", "transient")]
    seeds = f"{len(part.sample)} of {part.sample.declared}" if part.sample.declared else str(len(part.sample))
    paper = "" if part.paper is None else f"{part.unit.shown(part.paper):+.1f}"
    return [seeds, _effect(part, part.sample), _p(part.sample.p_value), _p(part.corrected), *others, paper]


def _effect(part: ClaimPart, sample: Sample) -> str:
    if not sample.values:
        return "–"
    if part.unit is POINTS:
        return interval(sample)
    low, mean, high = (part.unit.shown(value) for value in (sample.low, sample.mean, sample.high))
    return f"{mean:+.0f} % [{low:+.0f}, {high:+.0f}]" if len(sample) > 1 else f"{mean:+.0f} %"


def _p(value: float | None) -> str:
    if value is None or not math.isfinite(value):
        return ""
    return "<0.001" if value < 0.001 else f"{value:.3f}"


def settings() -> str:
    """Return for every claim that runs answer where it was judged: data, network, accuracy and seeds."""
    rows = [
        [
            claim.number,
            claim.verdict,
            *(claim.conditions.get(name, "–") for name in ("data", "network")),
            claim.setting or "–",
            *(claim.conditions.get(name, "–") for name in ("size", "images", "accuracy")),
            claim.seeds,
        ]
        for claim in judged()
        if not any(isinstance(part, Fact) for part in claim.parts)
    ]
    head = ["claim", "verdict", "data", "network", "other settings", "size", "images", "accuracy (%)", "seeds"]
    return table(head, rows, words=5)


def in_words() -> str:
    """Return a sentence of judgement for every claim."""
    return judge_in_words(judged())


def counts() -> str:
    """Return how many claims got which verdict, and from how many runs."""
    verdicts = [claim.verdict for claim in judged() if claim.number.isdigit()]
    hold, part, fail, left = (verdicts.count(verdict) for verdict in (HOLDS, PARTLY, FAILS, OPEN))
    reported = f"Of {len(verdicts)} claims {hold} hold, {part} hold in part, {fail} do not hold and {left} are open"
    return f"{reported}, from {len(summaries())} runs"
