"""What hostile clients cost under each rule and method."""

from __future__ import annotations

import statistics
from collections.abc import Callable

from benchmarks.hostile_clients import ATTACKS, COUNTS, EXTRA, NOBODY, NORMAL, RULES, Cell
from benchmarks.quotes.records import record, table

MUCH = 3.0
"""Percentage points that seeds do not explain."""


def seeds() -> str:
    """Return how many runs each number is the mean of."""
    return f"{record('results/hostile_clients.json')['seeds']} seeds"


def accuracies(method: str) -> Callable[[], str]:
    """Return the accuracy of each rule under each attack, with one number for each number of hostile clients."""

    def write() -> str:
        attacks = _attacks(method)
        rows = [
            [rule, _percent(method, rule, NOBODY), *(_percent(method, rule, attack) for attack in attacks)]
            for rule in RULES
        ]
        return table(["", NOBODY, *attacks], rows)

    return write


def costly(method: str) -> Callable[[], str]:
    """Return which attacks cost each rule much, by the number of hostile clients."""

    def write() -> str:
        counts = COUNTS[method]
        rows = [[rule, *(_costly(method, rule, hostile) for hostile in counts)] for rule in RULES]
        return table(["", *(f"{hostile} of 10" for hostile in counts)], rows, words=1 + len(counts))

    return write


def _attacks(method: str) -> list[str]:
    return [attack for attack in ATTACKS if attack != "extra" or method in EXTRA]


def _percent(method: str, rule: str, attack: str) -> str:
    counts = COUNTS[method] if attack in ATTACKS else (0,)
    return " · ".join(_shown(_mean(method, rule, attack, hostile)) for hostile in counts)


def _shown(accuracy: float | None) -> str:
    return "ended" if accuracy is None else f"{accuracy:.0f}"


def _costly(method: str, rule: str, hostile: int) -> str:
    costs = {}
    for attack in _attacks(method):
        before = _mean(method, rule, NORMAL if attack == "statistics" else NOBODY, 0) or 0.0
        after = _mean(method, rule, attack, hostile)
        if after is None or before - after > MUCH:
            costs[attack] = "ends" if after is None else f"{before - after:.0f}"
    return ", ".join(f"{attack} {cost}" for attack, cost in costs.items()) or "none"


def _mean(method: str, rule: str, attack: str, hostile: int) -> float | None:
    """Return the mean over seeds in percent; None if a run ended early."""
    found = record("results/hostile_clients.json")
    values = [found["accuracy"][Cell(method, rule, attack, hostile, seed).key] for seed in range(found["seeds"])]
    return None if None in values else 100 * statistics.fmean(values)
