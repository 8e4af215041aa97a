"""Whether a file of records can be taken for evidence: whole runs, where they ran, and arms that are paired by seed."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from feddecorr.config.overrides import flatten
from feddecorr.results.groups import context, group_by, is_finished
from feddecorr.results.summary import Summary, read_records

COMMIT = re.compile(r"[0-9a-f]{40}\+?")
"""With a plus sign where the source was changed after the commit."""

SHOWN = 5
"""So many of the runs with the same fault are named."""


@dataclass(frozen=True)
class Acceptance:
    """What a file holds, what makes it unacceptable, and what else a reader must know."""

    file: str
    runs: int
    arms: int
    pairs: int
    problems: Sequence[str]
    notes: Sequence[str]

    def to_dict(self) -> dict[str, Any]:
        """Return it ready for JSON."""
        return asdict(self)


def check_file(path: Path) -> Acceptance:
    """Check all records of a file; one that cannot be read is refused by its line."""
    runs = list(read_records(path))
    known = [run for run in runs if run.is_known]
    arms = group_by(known, context)
    paired, alone = _pairs(known)
    problems = [*_named(_faults(runs)), *_copies(runs), *_other_splits(known)]
    if not paired:
        problems.append("no pair: no seed has a run with a regularizer and the same run without")
    return Acceptance(str(path), len(runs), len(arms), paired, problems, _named([*alone, *_remarks(known)]))


def _faults(runs: Iterable[Summary]) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with single runs, and which run it is."""
    for run in runs:
        versions = run.environment.get("versions")
        named = versions if isinstance(versions, dict) else {}
        numbers = [line["round"] for line in run.rounds]
        accuracies = [
            line["model"]["accuracy"] for line in run.rounds if (line["model"] or {}).get("accuracy") is not None
        ]
        checks = {
            "settings that this version cannot read, so that no command repeats it": run.is_known,
            "fewer rounds than its settings ask for": is_finished(run),
            "rounds that are not 1, 2, 3, …": numbers == list(range(1, len(numbers) + 1)),
            "an accuracy that is no share": all(0 <= value <= 1 for value in accuracies),
            "no commit in its environment": COMMIT.fullmatch(str(run.environment.get("commit"))),
            "no versions of Python, PyTorch and feddecorr": {"python", "torch", "feddecorr"} <= named.keys(),
            "no platform in its environment": run.environment.get("platform"),
        }
        yield from ((fault, run.digest) for fault, right in checks.items() if not right)


def _remarks(runs: Iterable[Summary]) -> Iterator[tuple[str, str]]:
    for run in runs:
        if run.split is None or run.data is None:
            yield "no sha256 of data and split, which are kept since 2026-11-19", run.digest
        if str(run.environment.get("commit")).endswith("+"):
            yield "a commit with changes that nobody else has", run.digest


def _named(faults: Iterable[tuple[str, str]]) -> list[str]:
    """Return each fault with the runs that have it."""
    found = group_by(faults, lambda fault: fault[0])
    return [f"{len(each)} with {fault}: {_some([digest for _, digest in each])}" for fault, each in found.items()]


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:SHOWN]) + ", …" * (len(names) > SHOWN)


def _copies(runs: Iterable[Summary]) -> list[str]:
    """Return the experiments that are there more than once: some of the seeds would count twice."""
    counts = Counter((run.digest, int(run.options["rounds"])) for run in runs)
    return [f"the experiment {digest} is there {count} times" for (digest, _), count in counts.items() if count > 1]


DRAWN = ("data", "partition", "clients", "seed")
"""The settings that a split follows from."""


def _other_splits(runs: Iterable[Summary]) -> list[str]:
    """Return where runs with the same data, split settings and seed had different examples, or other clients."""

    def drawn(run: Summary) -> tuple[tuple[str, str], ...]:
        flat = flatten(run.content)
        return tuple((key, str(flat[key])) for key in sorted(flat) if key.split(".")[0] in DRAWN)

    return [
        f"other {part} in spite of the same settings and seed, by the sha256: {_some([run.digest for run in same])}"
        for same in group_by(runs, drawn).values()
        for part in ("data", "split")
        if len({getattr(run, part) for run in same} - {None}) > 1
    ]


def _pairs(runs: Iterable[Summary]) -> tuple[int, list[tuple[str, str]]]:
    """Return how many runs with regularizers have the same one without, and the runs that have not."""
    paired = 0
    alone: list[str] = []
    for same in group_by(runs, lambda run: context(run, ["regularizers"])).values():
        plain = {run.experiment["seed"] for run in same if not run.experiment["regularizers"]}
        for run in same:
            if run.experiment["regularizers"]:
                paired += run.experiment["seed"] in plain
                alone += [] if run.experiment["seed"] in plain else [run.digest]
    return paired, [("no run without regularizers that has its seed", digest) for digest in alone]
