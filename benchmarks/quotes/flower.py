"""What Flower costs, and what one server carries."""

from __future__ import annotations

from typing import Any

from benchmarks.quotes.records import record, table

COHORTS = (10, 100, 1000)
LINES = {100: 12.5, 1000: 125.0}
"""MB/s of a line, by its Mbit/s."""
TRAINING, ROUNDS = 60, 100
"""Seconds in which clients train, and rounds, of the plan's last row."""


def _costs() -> Any:
    return record("results/flower.json")


def engines() -> str:
    """Return seconds and memory of the three engines."""
    found = _costs()["ten clients"]
    rows = [
        [f"`{name}`", f"{each['first round']:.1f}", f"{each['later round']:.2f}", f"{each['megabytes']:.0f}"]
        for name, each in found.items()
    ]
    return table(("", "seconds to the end of the first round", "seconds of a later round", "MB of all processes"), rows)


def load() -> str:
    """Return how many processes wanted the machine's cores when the measurement began."""
    return f"{_costs()['load average before']:.0f}"


def start() -> str:
    """Return what Flower's start is made of."""
    found = _costs()
    parts = found["start of Flower"]
    rest = found["ten clients"]["flower"]["first round"] - sum(parts.values())
    return f"{parts['Ray and all nodes']:.1f} s for Ray and all nodes, and {rest:.1f} s for PyTorch"


def sizes() -> str:
    """Return where a round's time goes, by the size of the model."""
    names = ("pool", "flower", "our messages")
    rows = [
        [f"{each['megabytes']:.1f} MB", *(f"{each[name]:.2f}" for name in names)]
        for each in _costs()["two clients, one step"]
    ]
    return table(("a model of", "`pool`", "`flower`", "our messages"), rows)


def deployed() -> str:
    """Return the seconds of a deployed round, by who loads PyTorch and how often nodes look for work."""
    found = record("results/flower_deployment.json")["seconds of a round"]
    rows = [[name, f"{row['cold']:.1f}", f"{row['warm']:.1f}"] for name, row in found.items()]
    return table(("", "PyTorch loaded for each message", "PyTorch kept"), rows)


def imports() -> str:
    """Return what a process for one message has to load."""
    found = record("results/flower_deployment.json")["imports"]
    return f"{found['all that trains']:.1f} s of the processor, of which Flower's own are {found['Flower']:.1f}"


def _scale() -> Any:
    return record("results/flower_scale.json")


def _seconds() -> float:
    return float(_scale()["milliseconds of the server per client"]) / 1000


def seconds() -> str:
    """Return the server's time for each client."""
    return f"{1000 * _seconds():.0f} milliseconds"


def megabytes() -> str:
    """Return the bytes of a client's update."""
    return f"{_scale()['megabytes up per client']:.1f} MB"


def meeting() -> str:
    """Return how long it takes to meet everybody."""
    return f"{_scale()['seconds to meet all nodes']:.0f} seconds"


def one_round() -> str:
    """Return how long a round of the simulation takes, and in how much memory."""
    found = _scale()
    seconds, gigabytes = found["seconds of a round with its nodes"], found["peak memory in MB"] / 1000
    return f"{seconds:.1f} s, in {gigabytes:.1f} GB"


def plan() -> str:
    """Return what follows from the server's time and the bytes, for some sizes of a round."""
    each, size = _seconds(), _scale()["megabytes up per client"]

    def row(title: str, *values: float) -> list[str]:
        return [title, *map(_time, values)]

    rows = [row("server's time, m·s", *(m * each for m in COHORTS))]
    for speed, rate in LINES.items():
        times = (2 * m * size / rate for m in COHORTS)
        rows.append(row(f"a line of {rate:g} MB/s ({speed} Mbit/s), both ways", *times))
    rate = LINES[1000]
    whole = (ROUNDS * (TRAINING + m * each + 2 * m * size / rate) for m in COHORTS)
    rows.append(row(f"{ROUNDS} rounds at 1000 Mbit/s, if clients train for {TRAINING} s", *whole))
    return table((f"b = {size:.1f} MB, s = {each:.3f}", *(f"m = {m}" for m in COHORTS)), rows)


def client_sizes() -> str:
    """Return what a client takes of its host and of the network, for three networks, and what follows for a host."""
    rows = []
    for name, found in record("results/client_size.json")["networks"].items():
        down, up, memory = (found[f"megabytes {what}"] for what in ("down", "up", "of memory"))
        rows.append(
            [
                name,
                f"{found['parameters'] / 1e6:.2f} million",
                f"{memory} MB",
                f"{min(CORES, int((MEMORY - SERVER) / (memory / 1000)))}",
                f"{down:.1f} + {up:.1f} MB",
                f"{100 * (down + up) / 1000:.1f} GB",
            ]
        )
    headings = ["network", "parameters", "memory of a client", f"at once on {CORES} cores with {MEMORY} GB"]
    return table((*headings, "bytes of a client and round", "a round of 100"), rows)


CORES, MEMORY, SERVER = 32, 64, 4
"""A host, its memory in GB, and what of that is left to the server and the system."""


def _time(seconds: float) -> str:
    """Return a time in the unit in which it is read."""
    if seconds < 100:
        return f"{seconds:.2g} s"
    return f"{seconds / 60:.2g} min" if seconds < 6000 else f"{seconds / 3600:.2g} h"
