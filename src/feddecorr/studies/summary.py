"""What is kept of a run once it is done: small enough for git, and all that tables, figures and claims need."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError
from typing_extensions import TypedDict

from feddecorr.errors import UserError
from feddecorr.files import write_bytes
from feddecorr.runs.directory import RunDirectory
from feddecorr.runs.rhythm import is_due
from feddecorr.settings.experiment import Experiment
from feddecorr.settings.trust import CLOSED
from feddecorr.strict_json import parse_json
from feddecorr.studies.command import command

Line = dict[str, Any]
"""One round, as a run's directory keeps it."""

_REDUCE: dict[str, tuple[int, Callable[[Sequence[float]], float]]] = {
    "last": (1, lambda values: values[-1]),
    "last_ten": (10, lambda values: math.fsum(values[-10:]) / 10),
    "best": (1, max),
}
"""Of how many evaluated rounds at least, and what of them."""

STATISTICS = tuple(_REDUCE)
"""What a run's accuracy can mean; they tell different stories."""


class _Round(TypedDict):
    """What others rely on in a round, whoever wrote it."""

    round: int
    model: dict[str, float | None] | None
    seconds: float
    terms: dict[str, float]
    missing: dict[str, str]
    averaging: dict[str, float] | None


@dataclass(frozen=True)
class Summary:
    """One run.

    `rounds` has for each finished one `round`, `seconds`, `terms`, `missing`, in `model` all that is one number of the
    global model (None where it was not evaluated), and in `averaging` how clients' models compare with their average
    (None where they were not). `spectrum` are the singular values of the last evaluated global model; `local_models`
    and `local_terms` are those of the last round that has them, by client.
    """

    digest: str
    experiment: dict[str, Any]
    command: str
    environment: dict[str, Any]
    rounds: list[dict[str, Any]]
    spectrum: list[float] | None
    local_models: dict[str, dict[str, Any]]
    local_terms: dict[str, dict[str, list[float]]]

    @classmethod
    def of(cls, directory: RunDirectory, asked: Experiment | None = None) -> Summary:
        """Summarize the finished rounds of a run; with `asked`, as if it had been run by that experiment.

        A run is shared by experiments that differ in the number of rounds or in how often they evaluate.
        """
        experiment = directory.described()
        lines = list(_as_asked((record.to_dict() for record in directory.rounds()), asked or experiment))
        evaluated = [line["model"] for line in lines if line["model"]]
        return cls(
            digest=experiment.digest(),
            experiment=(asked or experiment).to_dict(),
            command=command(asked or experiment),
            environment=directory.environment() or {},
            rounds=[_scalars_only(line) for line in lines],
            spectrum=_short(evaluated[-1]["singular_values"]) if evaluated else None,
            local_models=_short(_newest(lines, "local_models")),
            local_terms=_newest(lines, "local_terms"),
        )

    def as_asked(self, experiment: Experiment) -> Summary:
        """Return the summary of a run by that experiment, which differs at most in rounds and in evaluations.

        The spectrum and the local models are only known of the last rounds: they are missing where those are cut off.
        """
        rounds = list(_as_asked(self.rounds, experiment))
        whole = [line for line in rounds if line["model"]][-1:] == [line for line in self.rounds if line["model"]][-1:]
        return replace(
            self,
            experiment=experiment.to_dict(),
            command=command(experiment),
            rounds=rounds,
            spectrum=self.spectrum if whole else None,
            local_models=self.local_models if whole else {},
            local_terms=self.local_terms if whole else {},
        )

    def to_dict(self) -> dict[str, Any]:
        """Return everything, ready for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Summary:
        """Take what `to_dict` gave; settings that have come since then have their defaults, which change no bit.

        Settings that cannot be read here are taken as they were written, if they are settings of an experiment at all;
        of code that they name, nothing is imported.
        """
        summary = cls(**{name: stored[name] for name in cls.__dataclass_fields__})
        whole, rounds = _checks()
        whole.validate_python(vars(summary))
        rounds.validate_python(summary.rounds)
        try:
            experiment = Experiment.parse(summary.experiment, CLOSED)
        except UserError:
            if type(summary.experiment["seed"]) is not int or type(summary.experiment["rounds"]) is not int:
                raise
            return summary
        return replace(summary, experiment=experiment.to_dict(), digest=experiment.digest())

    def statistic(self, name: str, measure: str = "accuracy", rounds: int | None = None) -> float | None:
        """Return the last value of a measure, the mean of the last ten, or the best (the largest).

        Only evaluated rounds count, and with `rounds` only those up to it; None if they are too few.
        """
        values = [
            line["model"][measure]
            for line in self.rounds
            if line["model"] and line["model"].get(measure) is not None and (rounds is None or line["round"] <= rounds)
        ]
        fewest, reduce = _REDUCE[name]
        return float(reduce(values)) if len(values) >= fewest else None


@cache
def _checks() -> tuple[TypeAdapter[Summary], TypeAdapter[list[_Round]]]:
    """Return what checks the types of a summary, and of its rounds."""
    return TypeAdapter(Summary), TypeAdapter(list[_Round])


def _as_asked(lines: Iterable[Line], asked: Experiment) -> Iterator[Line]:
    """Yield the rounds that the experiment has, evaluated only where it evaluates; under `auto`, wherever they are."""
    every = 1 if asked.evaluation.every == "auto" else asked.evaluation.every
    for line in lines:
        if line["round"] > asked.rounds:
            return
        yield (
            line
            if is_due(asked, line["round"], every)
            else {key: _NOTHING.get(key, value) for key, value in line.items()}
        )


_NOTHING: Line = {"model": None, "local_models": {}, "averaging": None}


def _scalars_only(line: Line) -> dict[str, Any]:
    found = line["model"] and {name: value for name, value in line["model"].items() if isinstance(value, int | float)}
    kept = {key: line[key] for key in ("round", "terms", "missing", "averaging")}
    return {**kept, "seconds": round(line["seconds"], 3), "model": found}


def _short(value: Any) -> Any:
    """Return it with spectra, which are lists, to six digits: they are most of a record, and are drawn."""
    if isinstance(value, dict):
        return {key: _short(inner) for key, inner in value.items()}
    return [float(f"{number:.6g}") for number in value] if isinstance(value, list) else value


def _newest(lines: Sequence[Line], key: str) -> dict[str, Any]:
    """Return what the last round that has any says of its clients."""
    return next(({str(client): found for client, found in line[key].items()} for line in lines[::-1] if line[key]), {})


def read_summaries(paths: Sequence[Path]) -> list[Summary]:
    """Return the runs of these files (`.jsonl`) and directories, also of those below a folder.

    A run that is there more than once counts with its most rounds; one without a finished round does not count.
    """
    found: dict[str, Summary] = {}
    for path in paths:
        for summary in _read(path):
            known = found.get(summary.digest)
            if known is None or len(known.rounds) < len(summary.rounds):
                found[summary.digest] = summary
    return list(found.values())


def _read(path: Path) -> Iterator[Summary]:
    if path.is_dir():
        for directory in run_directories(path):
            run = RunDirectory.open(directory)
            if run.finished_rounds():
                yield Summary.of(run)
        return
    try:
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path} is neither a directory nor a file of records that can be read: {error}") from error
    for number, line in enumerate(lines, start=1):
        try:
            yield Summary.from_dict(parse_json(line.encode()))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            hint = "'feddecorr records DIR -o FILE.jsonl' writes such files"
            raise UserError(f"{path}, line {number}: not the record of a run ({_reason(error)}); {hint}") from error


def _reason(error: Exception) -> str:
    """Return the first of all that is wrong."""
    if not isinstance(error, ValidationError):
        return repr(error)
    first = error.errors(include_url=False, include_input=False)[0]
    return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"


def run_directories(folder: Path) -> Iterator[Path]:
    """Yield the directories of runs, the folder itself or below it, in the order of their names."""
    for place, folders, files in os.walk(folder):
        folders.sort()
        if "experiment.json" in files:
            folders.clear()  # nothing of a run's own folders is another run
            yield Path(place)


def write_summaries(path: Path, summaries: Iterable[Summary]) -> None:
    """Write one line of JSON for each run, in one step."""
    lines = [json.dumps(summary.to_dict(), allow_nan=False, separators=(",", ":")) + "\n" for summary in summaries]
    path.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(path, "".join(lines).encode())
