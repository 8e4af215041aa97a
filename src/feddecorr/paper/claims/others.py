"""Claims that no federated run answers: computation, from recorded benchmarks, and the theory, checked on the spot."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from feddecorr.errors import UserError
from feddecorr.paper.claims.claim import OPEN, Claim, Fact, verdict_of
from feddecorr.paper.theory.studies.flow import study_flow
from feddecorr.paper.theory_settings import Flow

NEGLIGIBLE = 1.03
"""What FedDecorr may cost of a step of FedAvg: the paper's own ratio on CIFAR-10 (6.9 to 6.7 minutes)."""

FEWEST_PAIRS = 30
"""Alternated measurements of two terms that a comparison has at least."""

OURS = "fedavg with feddecorr"

RIGHT = 1e-6
"""The relative error up to which the theorem's prediction counts as right; the flow is integrated more finely."""

ROUNDING = 1e-9
"""The relative error up to which an identity holds in float64."""

CostRecord = Mapping[str, Any]


RATIOS = {
    "ratio to plain": ("feddecorr",),
    "milliseconds of a term": ("feddecorr", "fedprox"),
    "ratio to FedAvg": (OURS, "moon"),
}
"""What a claim reads of recorded costs."""


def check_costs(document: Any) -> None:
    """Refuse recorded costs that no claim could read; documents of anything else may hold what they want."""
    for key, names in RATIOS.items() if isinstance(document, dict) else ():
        ratios = document.get(key, {})
        if not isinstance(ratios, dict):
            raise UserError(f"'{key}' is not a table")
        for name in names if names[0] in ratios else ():
            ratio = ratios.get(name)
            if not isinstance(ratio, int | float) or not 0 < ratio < math.inf:
                raise UserError(f"'{key}' says no number above 0 for {name}")
        if ratios and "command" not in document:
            raise UserError(f"'{key}' stands without the command that measured it")


def computation(number: str, sentence: str, costs: Sequence[CostRecord]) -> Claim:
    """Judge 14 by the recorded costs of the loss, of the terms alone, and of rounds with it and with MOON."""
    loss = next((record for record in costs if "milliseconds of a term" in record), None)
    methods = next((record for record in costs if OURS in record.get("ratio to FedAvg", {})), None)
    measured = {"loss_cost": loss, "methods_cost": methods}
    commands = {name: f"python -m benchmarks.{name} --record results/{name}.json" for name in measured}
    if loss is None or methods is None:
        absent = [commands[name] for name, record in measured.items() if not record]
        return Claim(number, sentence, OPEN, [], absent)
    step = float(loss["ratio to plain"]["feddecorr"])
    ours, theirs = (float(loss["milliseconds of a term"][name]) for name in ("feddecorr", "fedprox"))
    pairs = int(loss.get("pairs", 0))
    rounds = {name: float(methods["ratio to FedAvg"][name]) for name in (OURS, "moon")}
    parts = [
        Fact(f"a step takes {step:.3f} of one without the term", step <= NEGLIGIBLE, {"ratio": step}),
        Fact(
            f"the term alone takes {ours:.2f} ms, FedProx's {theirs:.2f} ms",
            ours < theirs and pairs >= FEWEST_PAIRS,
            {"feddecorr": ours, "fedprox": theirs, "pairs": pairs},
        ),
        Fact(
            f"a round takes {rounds[OURS]:.3f} of one of FedAvg, with MOON {rounds['moon']:.3f}",
            rounds[OURS] < rounds["moon"],
            rounds,
        ),
    ]
    return Claim(
        number,
        sentence,
        verdict_of([part.answer for part in parts]),
        parts,
        list(commands.values()),
        setting="benchmarks of MobileNetV2, in turns",
    )


@cache
def theorem(number: str, sentence: str) -> Claim:
    """Judge 16 on flows from starts for which both assumptions hold, with two and three layers, three seeds each."""
    options = {"dim": 10, "classes": 5, "samples": 50, "points": 11}
    documents = [
        study_flow(Flow(layers=layers, seed=seed, **options)).document for layers in (2, 3) for seed in range(3)
    ]
    worst = max(float(document["largest_relative_error"]) for document in documents)
    printed = [
        float(flow["total_error_as_printed"]["end"]) for document in documents for flow in document["flows"].values()
    ]
    words = " ".join(f"{name}={value}" for name, value in options.items())
    parts = [
        Fact(f"with the corrected G: relative error {worst:.1e} at most", worst < RIGHT, {"largest_error": worst}),
        Fact(
            f"with G as printed: an error of {100 * max(printed):.0f} % of all growth at most",
            max(printed) < RIGHT,
            {"smallest_error": min(printed), "largest_error": max(printed)},
        ),
    ]
    return Claim(
        number,
        sentence,
        verdict_of([part.answer for part in parts]),
        parts,
        [f"feddecorr theory flow layers={layers} seed={seed} {words}" for layers in (2, 3) for seed in range(3)],
        setting=f"{len(printed)} flows of deep linear networks",
    )


def proposition(number: str, sentence: str) -> Claim:
    """Judge 17 on random correlation matrices, singular ones included."""
    errors = []
    for seed in range(20):
        stream = np.random.default_rng(seed)
        for size, samples in ((2, 5), (8, 100), (64, 500), (64, 20)):
            k = np.corrcoef(stream.normal(size=(size, size)) @ stream.normal(size=(size, samples)))
            values = np.linalg.svd(k, compute_uv=False)
            left, right = ((values - values.mean()) ** 2).sum(), (k**2).sum() - size
            errors.append(abs(left - right) / right)
    worst = float(max(errors))
    part = Fact(f"relative error {worst:.1e} at most", worst < ROUNDING, {"largest_error": worst})
    return Claim(
        number,
        sentence,
        verdict_of([part.answer]),
        [part],
        ["feddecorr claims"],
        setting=f"{len(errors)} random correlation matrices",
    )
