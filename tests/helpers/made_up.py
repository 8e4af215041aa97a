"""Records of runs that never were: numbers as a test wants them, with the settings of a real experiment."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from feddecorr.config.experiment import Experiment
from feddecorr.config.options import RunOptions
from feddecorr.config.overrides import read_overrides
from feddecorr.config.settings import parse_settings
from feddecorr.results.study import Arm, Result
from feddecorr.results.summary import Summary

SETTINGS = "data=cifar10 data.train=1000 clients=10 partition=dirichlet partition.alpha=0.1 rounds=12"
ROUNDS = 12
DIMENSIONS = 8


def settings(words: str = "") -> tuple[Experiment, RunOptions]:
    """Return a small experiment and its run options, changed by words."""
    return parse_settings(read_overrides(f"{SETTINGS} {words}".split()))


def summary(
    of: Arm | str = "",
    *,
    accuracy: float | Sequence[float] = 0.5,
    rank: float = 4.0,
    local_rank: float | None = None,
    terms: Mapping[str, Sequence[float]] | None = None,
    tail: float = 1.0,
) -> Summary:
    """Return the record of a finished run with that accuracy in every round, or with one for each of its last."""
    chosen, options = settings(of) if isinstance(of, str) else (of.experiment, of.options)
    curve = [accuracy] * options.rounds if isinstance(accuracy, int | float) else list(accuracy)
    spectrum = [4.0] * (DIMENSIONS // 2) + [tail] * (DIMENSIONS // 2)
    model = {"effective_rank": rank, "significant_singular_values": rank, "dimensions": DIMENSIONS}
    rounds = [
        {
            "round": number,
            "seconds": 1.0,
            "terms": {},
            "missing": {},
            "averaging": None,
            "model": {**model, "accuracy": value},
        }
        for number, value in enumerate(curve, start=1)
    ]
    context = {
        str(client): {
            "effective_rank": local_rank,
            "significant_singular_values": local_rank,
            "singular_values": spectrum,
        }
        for client in range(chosen.clients)
    }
    return Summary(
        digest=chosen.digest(),
        experiment=chosen.to_dict(),
        options=options.to_dict(),
        command=f"feddecorr run seed={chosen.seed}",
        environment={},
        rounds=rounds,
        spectrum=spectrum,
        local_models={} if local_rank is None else context,
        local_terms={client: {"feddecorr": list(values)} for client, values in (terms or {}).items()},
    )


def over_seeds(words: str, values: Sequence[float], **others: Any) -> list[Summary]:
    """Return a run for each accuracy, with the seeds from 0."""
    return [summary(f"{words} seed={seed}", accuracy=value, **others) for seed, value in enumerate(values)]


def results(arms: Sequence[Arm], of: Callable[[Arm], Summary | None] | None = None) -> list[Result]:
    """Return what came of the arms of a study: by default, records with local models and terms."""

    def make(arm: Arm) -> Summary:
        share = 0.5 + 0.01 * int(arm.labels["seed"])
        return summary(arm, accuracy=share, local_rank=5.0, terms={"0": [2.0, 1.0], "1": [1.0, 0.5]})

    return [Result(arm.labels, (of or make)(arm)) for arm in arms]
