"""Claims that no federated run answers: computation, from recorded benchmarks, and the theory, checked on the spot."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from feddecorr.studies.claims.claim import FAILS, HOLDS, OPEN, Claim
from feddecorr.studies.claims.rules import TENTH

NEGLIGIBLE = 1.03
"""What FedDecorr may cost of a step of FedAvg: the paper's own ratio on CIFAR-10 (6.9 to 6.7 minutes)."""

OURS = "fedavg with feddecorr"

RIGHT = 1e-6
"""The relative error up to which the theorem's prediction counts as right; the flow is integrated more finely."""

ROUNDING = 1e-9
"""The relative error up to which an identity holds in float64."""

Record = Mapping[str, Any]


def computation(number: int, sentence: str, costs: Sequence[Record]) -> Claim:
    """Judge 14 by the recorded costs of the loss, and of rounds with it and with other methods."""
    loss = next((record for record in costs if "ratio to plain" in record), None)
    methods = next((record for record in costs if OURS in record.get("ratio to FedAvg", {})), None)
    if loss is None or methods is None:
        absent = {"loss_cost": loss, "methods_cost": methods}
        commands = [
            f"python -m benchmarks.{name} --record results/{name}.json" for name, record in absent.items() if not record
        ]
        return Claim(number, sentence, OPEN, {}, 0, None, commands, found="no recorded costs")
    step = float(loss["ratio to plain"]["feddecorr"])
    rounds = {name: float(methods["ratio to FedAvg"][name]) for name in (OURS, "fedprox", "moon")}
    ours, *others = rounds.values()
    found = ", ".join(f"{name} {ratio:.3f}" for name, ratio in rounds.items())
    return Claim(
        number,
        sentence,
        HOLDS if step <= NEGLIGIBLE and math.log(ours / min(others)) < TENTH else FAILS,
        {"step": step, **rounds},
        0,
        None,
        [str(record["command"]) for record in (loss, methods)],
        found=f"a step {step:.3f} of one without; a round of FedAvg: {found}",
        setting="benchmarks of MobileNetV2, in turns",
    )


def theorem(number: int, sentence: str) -> Claim:
    """Judge 16 on flows from starts for which both assumptions hold, with two and three layers, three seeds each."""
    from feddecorr.theory.settings import Flow  # noqa: PLC0415 - solvers are loaded when they are needed
    from feddecorr.theory.studies.flow import study_flow  # noqa: PLC0415

    options = {"dim": 10, "classes": 5, "samples": 50, "points": 11}
    documents = [
        study_flow(Flow(layers=layers, seed=seed, **options)).document for layers in (2, 3) for seed in range(3)
    ]
    worst = max(float(document["largest_relative_error"]) for document in documents)
    printed = [
        float(flow["total_error_as_printed"]["end"]) for document in documents for flow in document["flows"].values()
    ]
    numbers = {
        "largest relative error": worst,
        "flows": len(printed),
        "total error at the end with G as printed": {"smallest": min(printed), "largest": max(printed)},
    }
    words = " ".join(f"{name}={value}" for name, value in options.items())
    return Claim(
        number,
        sentence,
        HOLDS if worst < RIGHT else FAILS,
        numbers,
        3,
        None,
        [f"feddecorr theory flow layers={layers} seed={seed} {words}" for layers in (2, 3) for seed in range(3)],
        found=f"relative error {worst:.1e} at most with G = (y − γ)Xᵀ/N; with G as printed, "
        f"{100 * max(printed):.0f} % of all growth at most",
        setting=f"{len(printed)} flows of deep linear networks",
    )


def proposition(number: int, sentence: str) -> Claim:
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
    return Claim(
        number,
        sentence,
        HOLDS if worst < ROUNDING else FAILS,
        {"largest relative error": worst, "matrices": len(errors)},
        20,
        None,
        ["feddecorr claims"],
        found=f"relative error {worst:.1e} at most",
        setting=f"{len(errors)} random correlation matrices",
    )
