"""All that is fast or slow in one table: every benchmark in its quick form, next to what was recorded of it.

    python -m benchmarks.table [NAME …]        (`make bench` is the whole table; it takes about ten minutes)

What got slower, or larger, by more than a tenth is named in the end, and then the exit code is 1. A quick form takes
fewer turns than a record, so look twice: `python -m benchmarks.NAME` measures properly, and
`--record results/NAME.json` keeps it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from benchmarks import evaluation, tiny_clients
from benchmarks.turns import environment

RESULTS = Path(__file__).parent.parent / "results"
SLOWER = 1.1
"""By such a factor a number may be worse before it is named."""

Records = Mapping[str, Mapping[str, Any]]
"""What each benchmark found."""

TEN = "10 clients, Dirichlet 0.5, 10 000 images, batch 64"
THOUSAND = "1000 clients x 50 images, cohort 50, batch 10"


@dataclass(frozen=True)
class Row:
    """A number of a benchmark's record, by its place there; of speeds more is better, of costs less."""

    benchmark: str
    place: tuple[str, ...]
    better: Literal["more", "less"]

    @property
    def title(self) -> str:
        """What the number is of."""
        return f"{self.benchmark}: {', '.join(self.place)}"

    def read(self, record: Mapping[str, Any]) -> float:
        """Return the number."""
        value: Any = record
        for key in self.place:
            value = value[key]
        return float(value)

    def worse(self, now: float, recorded: float) -> float:
        """Return by which factor it is worse than it was; below 1, it is better."""
        return recorded / now if self.better == "more" else now / recorded


QUICK: dict[str, list[str]] = {
    "speed": ["--turns", "3"],
    "evaluation": ["--turns", "3"],
    "tiny_clients": ["--turns", "3"],
    "many_clients": ["--turns", "2"],
    "methods_cost": ["fedprox", "scaffold", "moon", "fedntd", "--repeats", "3"],
    "command": ["--turns", "3"],
    "memory": ["--rounds", "100"],
}
"""How each benchmark is run here."""

ROWS = (
    Row("speed", (TEN, "ratio to bare", "serial"), "more"),
    Row("speed", (TEN, "ratio to bare", "pool"), "more"),
    Row("speed", (THOUSAND, "ratio to bare", "serial"), "more"),
    Row("speed", (THOUSAND, "ratio to bare", "pool"), "more"),
    Row("speed", (THOUSAND, "pool's peak memory in MB", "pss"), "less"),
    *(Row("evaluation", (title, "ratio", "floor"), "less") for title in evaluation.SETTINGS),
    *(Row("evaluation", (title, "ratio", "auto"), "less") for title in evaluation.SETTINGS),
    *(
        Row("tiny_clients", (network, "ratio to a bare loop per core", name), "more")
        for network in tiny_clients.NETWORKS
        for name in tiny_clients.CONTESTANTS
        if name not in ("bare loop", tiny_clients.YARDSTICK)
    ),
    *(
        Row("many_clients", (engine, "1000000", f"ratio of {what}"), "less")
        for engine in ("serial", "pool")
        for what in ("starts", "rounds", "memory")
    ),
    *(Row("methods_cost", ("ratio to FedAvg", name), "less") for name in ("fedprox", "scaffold", "moon", "fedntd")),
    Row("command", ("start over import torch", "serial"), "less"),
    Row("command", ("start over import torch", "pool"), "less"),
    Row("command", ("end over import torch", "serial"), "less"),
    Row("command", ("end over import torch", "pool"), "less"),
    Row("memory", ("memory", "serial", "growth"), "less"),
    Row("memory", ("memory", "pool", "growth"), "less"),
)
"""What is shown, in this order."""


def run(benchmark: str) -> dict[str, Any]:
    """Return the record that the benchmark's quick form makes now."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"{benchmark}.json"
        words = ["-m", f"benchmarks.{benchmark}", *QUICK[benchmark], "--record", str(file)]
        subprocess.run([sys.executable, *words], check=True, stdout=subprocess.DEVNULL, env=environment())
        return read(file)


def read(file: Path) -> dict[str, Any]:
    """Return a record; nothing where there is none."""
    record: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
    return record


def compare(rows: Sequence[Row], now: Records, recorded: Records) -> tuple[str, list[str]]:
    """Return the table, and what got worse; what was never recorded is compared with nothing."""
    width = max(len(row.title) for row in rows)
    lines = [f"{'':{width}} {'now':>9} {'recorded':>9} {'worse by':>9}"]
    worse = []
    for row in rows:
        value, before = row.read(now[row.benchmark]), recorded[row.benchmark]
        if not before:
            lines.append(f"{row.title:{width}} {value:9.3f} {'–':>9} {'–':>9}")
            continue
        known = row.read(before)
        factor = row.worse(value, known)
        lines.append(f"{row.title:{width}} {value:9.3f} {known:9.3f} {factor:8.2f}×")
        if factor > SLOWER:
            worse.append(f"worse by {100 * (factor - 1):.0f} %: {row.title}")
    return "\n".join(lines), worse


def main() -> None:
    """Run the benchmarks, one after another, and print the table; end with 1 if anything got worse."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"all by default: {', '.join(QUICK)}")
    names = parser.parse_args().names or list(QUICK)
    if unknown := [name for name in names if name not in QUICK]:
        parser.error(f"there is no {', '.join(unknown)}: choose from {', '.join(QUICK)}")
    now = {}
    for place, name in enumerate(names, start=1):
        print(f"{place} of {len(names)}: {name}", file=sys.stderr, flush=True)
        started = time.perf_counter()
        now[name] = run(name)
        print(f"{name} took {time.perf_counter() - started:.0f} s", file=sys.stderr, flush=True)
    rows = [row for row in ROWS if row.benchmark in now]
    table, worse = compare(rows, now, {name: read(RESULTS / f"{name}.json") for name in now})
    print(table, "", *(worse or [f"nothing is worse by more than {100 * (SLOWER - 1):.0f} %"]), sep="\n")
    sys.exit(1 if worse else 0)


if __name__ == "__main__":
    main()
