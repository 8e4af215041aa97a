"""The claims as the records answer them, beside the paper's own numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from benchmarks.quotes.judgements import judge_in_words
from benchmarks.quotes.pairs import summaries
from benchmarks.quotes.records import record, table
from feddecorr.studies.claims import judge
from feddecorr.studies.claims.claim import FAILS, HOLDS, OPEN, Claim
from feddecorr.studies.claims.other_claims import RIGHT, ROUNDING
from feddecorr.studies.paper_values import published
from feddecorr.studies.study import Label

LIMITS = {16: RIGHT, 17: ROUNDING}
"""Claims that are computed on the spot."""


@cache
def _claims() -> list[Claim]:
    return judge(summaries(), [record(f"results/{name}.json") for name in ("loss_cost", "methods_cost")])


def claims() -> str:
    """Return every claim with the paper's numbers, ours and the verdict."""
    rows = [
        [str(claim.number), claim.sentence, _papers(claim.number), _ours(claim), claim.verdict] for claim in _claims()
    ]
    return table(("", "claim", "the paper", "here", "verdict"), rows, words=5)


def in_words() -> str:
    """Return a sentence of judgement for every claim."""
    return judge_in_words(_claims())


def counts() -> str:
    """Return how many claims got which verdict, and from how many runs."""
    verdicts = [claim.verdict for claim in _claims()]
    hold, fail, left = (verdicts.count(verdict) for verdict in (HOLDS, FAILS, OPEN))
    told = f"Of {len(verdicts)} claims {hold} hold, {fail} do not hold and {left} cannot be told yet"
    return f"{told}, from {len(summaries())} runs"


def _ours(claim: Claim) -> str:
    """Return the numbers of all parts; of what has none, what was found in words.

    What is computed on the spot has other last digits on other processors, so that its limit is told.
    """
    if claim.number in LIMITS:
        return f"a relative error {'below' if claim.verdict == HOLDS else 'above'} {LIMITS[claim.number]:.0e}"
    parts = [_part(says, numbers) for says, numbers in claim.numbers.items() if _is_part(numbers)]
    return "; ".join(parts) or claim.found


def _is_part(numbers: Any) -> bool:
    return isinstance(numbers, Mapping) and "mean" in numbers


def _part(says: str, numbers: Mapping[str, Any]) -> str:
    if not numbers["seeds"]:
        return f"{says}: –"
    low, high = numbers["interval"]
    unit = "" if numbers["unit"] == "percentage points" else " %"
    interval = "" if low is None or high is None else f" [{low:+.1f}, {high:+.1f}]"
    return f"{says}: {numbers['mean']:+.1f}{unit}{interval}, {numbers['seeds']} seeds"


def _gain(of: str, data: str, **labels: Label) -> float:
    """Return what FedDecorr, or another regularizer, adds in a table of the paper."""
    regularizer = labels.pop("regularizer", "feddecorr")
    plain, beside = (
        published(of, {"data": data, "method": "fedavg", **labels, "regularizer": name})[0].mean
        for name in ("none", regularizer)
    )
    return beside - plain


def _gains(of: str, data: str, axis: str, values: tuple[Label, ...], **labels: Label) -> Callable[[], str]:
    def write() -> str:
        found = [f"{_gain(of, data, **{axis: value, **labels}):+.1f} ({value})" for value in values]
        return f"{', '.join(found)}; {data}"

    return write


def _computation() -> str:
    minutes = {
        (method, regularizer): published(
            "computation", {"data": "cifar10", "method": method, "regularizer": regularizer, "alpha": 0.5}
        )[0].mean
        for method, regularizer in (("fedavg", "none"), ("fedavg", "feddecorr"), ("fedprox", "none"), ("moon", "none"))
    }
    first, *others = minutes.values()
    return "{:.2f}, {:.2f} and {:.2f} of FedAvg; cifar10".format(*(other / first for other in others))


PAPERS: dict[int, Callable[[], str]] = {
    4: _gains("main", "cifar10", "alpha", (0.05, 0.1, 0.5)),
    5: lambda: "; ".join(
        f"{method} {_gains('main', 'cifar10', 'alpha', (0.05, 0.1, 0.5), method=method)()}"
        for method in ("fedprox", "fedavgm", "moon")
    ),
    6: _gains("main", "cifar10", "alpha", ("inf",)),
    7: _gains("clients", "tinyimagenet", "clients", (10, 30, 100), alpha=0.1),
    9: _gains("epochs", "cifar100", "epochs", (1, 5, 10), alpha=0.1),
    10: _gains("decorrelation", "tinyimagenet", "regularizer", ("decov", "structured_decov"), alpha=0.1),
    11: _gains("architectures", "cifar10", "model", ("resnet32", "resnet18", "mobilenetv2"), alpha=0.05),
    12: _gains("classes", "cifar10", "classes", (2, 3)),
    14: _computation,
}
"""What the paper prints; of all others it has a figure or a proof."""


def _papers(number: int) -> str:
    return PAPERS[number]() if number in PAPERS else "a proof" if number in LIMITS else "a figure"
