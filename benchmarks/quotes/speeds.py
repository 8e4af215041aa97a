"""How fast rounds are: with evaluation, on the cores of a machine, with many and with tiny clients."""

from __future__ import annotations

from benchmarks.evaluation import SETTINGS as EVALUATED
from benchmarks.quotes.records import record, table
from benchmarks.threads import SETTINGS as DIVIDED
from benchmarks.tiny_clients import NETWORKS

MILLION = "1000000"


def evaluation() -> str:
    """Return what an evaluated round costs, over a round alone, over the least possible, and on average."""
    found = record("results/evaluation.json")
    columns = ("alone", "floor", "auto")
    rows = [[title, *(f"{found[title]['ratio of medians'][name]:.2f}" for name in columns)] for title in EVALUATED]
    return table(("", "over a round alone", "over the floor", "on average with `auto`"), rows)


def threads() -> str:
    """Return how fast each division of the cores is."""
    found = record("results/threads.json")
    divisions = list(found[next(iter(DIVIDED))]["ratio to 1 × 1"])
    rows = [[title, *(f"{found[title]['ratio to 1 × 1'][name]:.2f}" for name in divisions)] for title in DIVIDED]
    return table(("", *divisions), rows)


def tiny_clients() -> str:
    """Return how fast tiny clients are one by one and side by side."""
    found = {title: record("results/tiny_clients.json")[title]["ratio to a bare loop per core"] for title in NETWORKS}
    names = [name for name in next(iter(found.values())) if not name.startswith("a bare")]
    rows = [[name, *(f"{ratios[name]:.2f}" for ratios in found.values())] for name in names]
    return table(("", *found), rows)


def million_clients() -> str:
    """Return what a million registered clients cost beyond a thousand."""
    found = record("results/many_clients.json")
    rows = [
        [engine, *(f"{found[engine][MILLION][f'{unit} more']:.{digits}f}" for unit, digits in UNITS.items())]
        for engine in ("serial", "pool")
    ]
    return table(("", "seconds to the first round", "MB"), rows)


UNITS = {"seconds": 2, "megabytes": 0}
"""What is reported, with its number of digits."""
