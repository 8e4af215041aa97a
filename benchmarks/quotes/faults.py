"""What runs and readers were put through, and the results."""

from __future__ import annotations

from benchmarks.quotes.records import record


def every_write() -> str:
    """Return at how many calls runs were killed."""
    rows = [row for row in record("results/torture_every_write.json").values() if "kills" in row]
    return f"{sum(row['kills'] for row in rows)} system calls"


def random_kills() -> str:
    """Return how often runs were killed at random, and how many went wrong."""
    found = record("results/torture_random_kills.json")
    return f"{found['kills']} random moments: {found['runs compared']} runs, {len(found['wrong'])} with other bits"


def long_life() -> str:
    """Return how long the long life was, and between which sizes its memory was."""
    found = record("results/torture_long_life.json")
    sizes = [part["memory"] / 2**20 for part in found["parts"]]
    return f"{found['rounds']} rounds, between {min(sizes):.0f} and {max(sizes):.0f} MiB"


def broken_inputs() -> str:
    """Return how many inputs each reader was given, and how many did harm."""
    return "{} broken inputs for each of {} readers, {} with harm".format(*_inputs("broken_inputs"))


def guided_inputs() -> str:
    """Return the same of a fuzzer that follows which lines are reached."""
    return "{} more for each of {}, {} with harm".format(*_inputs("guided_inputs"))


def messages() -> str:
    """Return how many messages of clients were changed on each road, and how many did harm."""
    roads = record("results/torture_messages.json")["roads"].values()
    fewest, harm = min(row["messages"] for row in roads), sum(len(row["wrong"]) for row in roads)
    return f"{fewest} messages on each of {len(roads)} roads, {harm} with harm"


def _inputs(name: str) -> tuple[str, int, int]:
    """Return between which numbers of inputs readers got, the number of readers, and how many inputs did harm."""
    readers = record(f"results/torture_{name}.json")["readers"].values()
    harm = sum(len(row["wrong"]) + len(row["outside"]) for row in readers)
    counts = [row["inputs"] for row in readers]
    return f"{min(counts)} to {max(counts)}", len(readers), harm
