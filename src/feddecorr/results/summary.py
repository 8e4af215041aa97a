"""What is kept of a run once it is done: small enough for git, and all that tables, figures and claims need."""

from __future__ import annotations

import json
import math
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, fields, replace
from functools import cache, cached_property
from pathlib import Path
from statistics import fmean
from typing import Any, NotRequired

from pydantic import TypeAdapter, ValidationError
from typing_extensions import TypedDict

from feddecorr.config.experiment import Experiment
from feddecorr.config.overrides import flatten
from feddecorr.config.training import SCHEDULES
from feddecorr.core.files import write_bytes
from feddecorr.core.limits import check_plain
from feddecorr.core.text import parse_json, to_json
from feddecorr.core.trust import CLOSED
from feddecorr.errors import UserError
from feddecorr.runs.directory import FEDERATION, RunDirectory
from feddecorr.runs.evaluation import is_due
from feddecorr.runs.record import LONGEST
from feddecorr.settings.flat import command, parse_settings
from feddecorr.settings.options import RunOptions

Context = tuple[tuple[str, str], ...]
"""Settings with dotted keys and their values as text; runs with the same context can be compared."""

Line = dict[str, Any]
"""One round, as a run's directory keeps it."""

STATISTICS = {
    "last": "last round",
    "last_ten": "mean of the last ten",
    "best": "best round",
    "transient": "while the learning rate is high",
    "smoothed": "smoothed",
}
"""What a run's accuracy can mean. `last` is the model that a user gets; `smoothed` is the running exponential average
at the end, which tables since 2022 print."""

COSTS = ("sent", "received", "flops")
"""Bytes per client, known of every round; operations of a round's local training, where they were counted."""

NO_COMMAND = "(none: its settings cannot be read here)"
"""In place of the command of a record that another version wrote, perhaps."""

DEEPEST = 20
"""Tables and lists within each other that a record may have: ours have six, and all that reads them recurs."""

LONG = 20
"""Rounds that a run has at least before the mean of its last ten is one of its end."""

Values = list[tuple[int, float]]
"""Evaluated rounds and their values."""


class _RoundMeasures(TypedDict):
    """What others rely on in a round, whoever wrote it."""

    round: int
    model: dict[str, float | None] | None
    seconds: float
    terms: dict[str, float]
    missing: dict[str, str]
    averaging: dict[str, float] | None
    updates: NotRequired[dict[str, dict[str, float | None]]]
    sent: NotRequired[float | None]
    received: NotRequired[float | None]
    flops: NotRequired[float | None]


@dataclass(frozen=True)
class Summary:
    """One run.

    `rounds` has for each finished one `round`, `seconds`, `terms`, `missing`, in `model` all that is one number of the
    global model (None where it was not evaluated), in `averaging` how clients' models compare with their average (None
    where they were not), perhaps in `updates` what they changed, by layer, and in `sent` and `received` the bytes per
    client. `spectrum` are the singular values of the last evaluated global model; `local_models` and `local_terms` are
    those of the last round that has them, by client. `classifier_spectrum` are the singular values of the classifier's
    weights, in the last round whose labels were looked at. `data` and `split` are the sha256 of the examples and of
    who holds which; records of before they were kept have none.
    """

    digest: str
    experiment: dict[str, Any]
    options: dict[str, Any]
    command: str
    environment: dict[str, Any]
    rounds: list[dict[str, Any]]
    spectrum: list[float] | None
    local_models: dict[str, dict[str, Any]]
    local_terms: dict[str, dict[str, list[float]]]
    classifier_spectrum: list[float] | None = None
    data: str | None = None
    split: str | None = None

    @classmethod
    def of(cls, directory: RunDirectory, asked: RunOptions | None = None) -> Summary:
        """Summarize the finished rounds of a run; with `asked`, as if it had been run with these options.

        An experiment is run once for all who ask for other numbers of rounds or other evaluations.
        """
        experiment, held = directory.settings()
        options = asked or held
        lines = list(_as_asked((record.to_dict() for record in directory.rounds()), options))
        evaluated = [line["model"] for line in lines if line["model"]]
        classifiers = [found for model in evaluated if (found := model.get("classifier_singular_values"))]
        about = directory.federation() if (directory.inside / FEDERATION).exists() else None
        return cls(
            digest=experiment.digest(),
            experiment=experiment.to_dict(),
            options=options.to_dict(),
            command=command(experiment, options),
            environment=directory.environment() or {},
            rounds=[_scalars_only(line) for line in lines],
            spectrum=_short(evaluated[-1]["singular_values"]) if evaluated else None,
            local_models=_short(_newest(lines, "local_models")),
            local_terms=_newest(lines, "local_terms"),
            classifier_spectrum=_short(classifiers[-1]) if classifiers else None,
            data=None if about is None else about.data,
            split=None if about is None else about.split,
        )

    def as_asked(self, options: RunOptions) -> Summary:
        """Return the summary as if the experiment had been run with these options.

        The spectrum and the local models are only known of the last rounds: they are missing where those are cut off.
        """
        rounds = list(_as_asked(self.rounds, options))
        whole = [line for line in rounds if line["model"]][-1:] == [line for line in self.rounds if line["model"]][-1:]
        return replace(
            self,
            options=options.to_dict(),
            command=command(Experiment.parse(self.experiment, CLOSED), options),
            rounds=rounds,
            spectrum=self.spectrum if whole else None,
            local_models=self.local_models if whole else {},
            local_terms=self.local_terms if whole else {},
            classifier_spectrum=self.classifier_spectrum if whole else None,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return everything, ready for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Summary:
        """Take what `to_dict` gave; settings that have come since then have their defaults, which change no bit.

        Settings that cannot be read here are taken as they were written, if they are settings of an experiment at all;
        of code that they name, nothing is imported. The command is made of the settings: a reader may type it in, and
        what the file says may be anything.
        """
        if not _is_shallow(stored, DEEPEST):
            raise UserError(f"more than {DEEPEST} tables and lists within each other")
        names = [each.name for each in fields(cls) if each.default is MISSING or each.name in stored]
        summary = cls(**{name: stored[name] for name in names})
        whole, rounds = _checks()
        whole.validate_python(vars(summary))
        rounds.validate_python(summary.rounds)
        try:
            experiment, options = parse_settings({**summary.experiment, **summary.options}, CLOSED)
        except UserError:
            if type(summary.experiment["seed"]) is not int or type(summary.options["rounds"]) is not int:
                raise
            return replace(summary, command=NO_COMMAND)
        return replace(
            summary,
            experiment=experiment.to_dict(),
            options=options.to_dict(),
            digest=experiment.digest(),
            command=command(experiment, options),
        )

    @property
    def settings(self) -> dict[str, Any]:
        """The experiment and the options in one flat form, as they are set."""
        return {**self.experiment, **self.options}

    @cached_property
    def content(self) -> dict[str, Any]:
        """The experiment without the places of files that are pinned: what runs are compared by."""
        return Experiment.parse(self.experiment, CLOSED).content() if self.is_known else self.experiment

    @cached_property
    def context(self) -> Context:
        """The experiment and its number of rounds: what runs that differ in nothing but the seed have in common."""
        return experiment_context(self.content, int(self.options["rounds"]))

    @property
    def is_known(self) -> bool:
        """Whether its settings can be read here: of others, nothing is sure to be there but the seed and the rounds."""
        return self.command != NO_COMMAND

    def statistic(self, name: str, measure: str = "accuracy", rounds: int | None = None) -> float | None:
        """Return a measure of a run by one of the `STATISTICS`; `best` is the largest value.

        Only evaluated rounds count, and with `rounds` only those up to it; None if they are too few.
        """
        values = [
            (int(line["round"]), float(value))
            for line in self.rounds
            if (value := (line if measure in COSTS else line["model"] or {}).get(measure)) is not None
            and (rounds is None or line["round"] <= rounds)
        ]
        return _REDUCE[name](self, values) if values else None

    def rate(self, number: int) -> float:
        """Return the learning rate of a round, as a share of the first one's; of a schedule unknown here, NaN."""
        if not self.is_known:
            return math.nan
        schedule = SCHEDULES.parse(self.experiment["training"]["schedule"], CLOSED)
        return math.nan if SCHEDULES.is_closed(schedule) else schedule.factor(number) / schedule.factor(1)

    @property
    def trains_to_the_end(self) -> bool:
        """Whether clients still move in the last round: its learning rate is at least half of the first."""
        return self.rate(int(self.rounds[-1]["round"])) >= HIGH


HIGH = 0.5
"""The share of the first learning rate from which on a learning rate is high."""


def _last_ten(_: Summary, values: Values) -> float | None:
    enough = len(values) >= 10 and values[-1][0] >= LONG
    return math.fsum(value for _, value in values[-10:]) / 10 if enough else None


def _transient(summary: Summary, values: Values) -> float | None:
    high = [value for number, value in values if summary.rate(number) >= HIGH]
    return fmean(high) if high else None


KEPT = 0.9
"""What is left of a round's weight with each further round."""


def smooth(values: Values) -> list[tuple[int, float]]:
    """Return the running exponential average of values by round, with weights that fall by a tenth a round.

    As the tables of FedMLB, FedACG and FedRCL have it, divided by the sum of the weights, so that a run that has just
    begun is not drawn to zero.
    """
    found, total, weight, last = [], 0.0, 0.0, 0
    for number, value in values:
        fading = KEPT ** (number - last)
        total, weight, last = fading * total + value, fading * weight + 1, number
        found.append((number, total / weight))
    return found


def _smoothed(_: Summary, values: Values) -> float | None:
    return smooth(values)[-1][1] if values[-1][0] >= LONG else None


_REDUCE: dict[str, Callable[[Summary, Values], float | None]] = {
    "last": lambda _, values: values[-1][1],
    "last_ten": _last_ten,
    "best": lambda _, values: max(value for _, value in values),
    "transient": _transient,
    "smoothed": _smoothed,
}


def experiment_context(content: Mapping[str, Any], rounds: int) -> Context:
    """Return what runs of such an experiment have in common with others that they can be compared with."""
    flat = flatten({name: value for name, value in content.items() if name != "seed"} | {"rounds": rounds})
    return tuple((key, json.dumps(value)) for key, value in sorted(flat.items()))


def _is_shallow(value: Any, levels: int) -> bool:
    inner = value.values() if isinstance(value, Mapping) else value
    return levels > 0 and all(_is_shallow(each, levels - 1) for each in inner if isinstance(each, Mapping | list))


@cache
def _checks() -> tuple[TypeAdapter[Summary], TypeAdapter[list[_RoundMeasures]]]:
    """Return what checks the types of a summary, and of its rounds."""
    return TypeAdapter(Summary), TypeAdapter(list[_RoundMeasures])


def _as_asked(lines: Iterable[Line], asked: RunOptions) -> Iterator[Line]:
    """Yield the rounds that are asked for, evaluated only where that is asked for; under `auto`, wherever they are."""
    every = 1 if asked.evaluation.every == "auto" else asked.evaluation.every
    for line in lines:
        if line["round"] > asked.rounds:
            return
        yield (
            line
            if is_due(asked, line["round"], every)
            else {key: _NOTHING.get(key, value) for key, value in line.items()}
        )


_NOTHING: Line = {"model": None, "local_models": {}, "averaging": None, "updates": {}}


def _scalars_only(line: Line) -> dict[str, Any]:
    found = line["model"] and {
        name: value
        for name, value in {**line["model"], **line["model"].get("measures", {})}.items()
        if isinstance(value, int | float)
    }
    kept = {key: line[key] for key in ("round", "terms", "missing", "averaging", "sent")}
    if line["updates"]:
        kept["updates"] = line["updates"]
    if line["flops"] is not None:
        kept["flops"] = line["flops"]
    received = fmean(line["received"].values()) if line["received"] else None
    return {**kept, "received": received, "seconds": round(line["seconds"], 3), "model": found}


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

    A run that is there more than once counts with its most rounds; one without a finished round does not count. One
    below a folder that cannot be read is named in a warning, and keeps nobody from the others.
    """
    found: dict[str, Summary] = {}
    for path in paths:
        for summary in read_records(path):
            known = found.get(summary.digest)
            found[summary.digest] = summary if known is None else _joined(known, summary)
    return list(found.values())


def _joined(one: Summary, other: Summary) -> Summary:
    """Return the richer of two records of an experiment, with what only the other says of clients."""

    def richness(summary: Summary) -> tuple[int, int]:
        return len(summary.rounds), sum(line["model"] is not None for line in summary.rounds)

    more, less = (other, one) if richness(other) > richness(one) else (one, other)
    more = replace(more, data=more.data or less.data, split=more.split or less.split)
    if len(more.rounds) > len(less.rounds):
        return more
    return replace(
        more,
        local_models=more.local_models or less.local_models,
        local_terms=more.local_terms or less.local_terms,
        classifier_spectrum=more.classifier_spectrum or less.classifier_spectrum,
    )


def read_records(path: Path) -> Iterator[Summary]:
    """Yield every record of a file, or of the runs of a folder, also the same run again."""
    if path.is_dir():
        for directory in run_directories(path):
            try:
                run = RunDirectory.open(directory)
                if run.finished_rounds():
                    yield Summary.of(run)
            except (UserError, OSError) as error:
                if directory == path:  # it was asked for by its name
                    raise
                warnings.warn(f"{directory} is left out: {error}", stacklevel=2)
        return
    for number, line in enumerate(_lines(path), start=1):
        try:
            yield Summary.from_dict(parse_json(line))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            hint = "'feddecorr records DIR -o FILE.jsonl' writes such files"
            raise UserError(f"{path}, line {number}: not the record of a run ({_reason(error)}); {hint}") from error


def _lines(path: Path) -> Iterator[bytes]:
    try:
        check_plain(path)
        with path.open("rb") as file:
            while line := file.readline(LONGEST):
                if len(line) == LONGEST:
                    raise UserError(f"{path}: a record is longer than {LONGEST:,} bytes")
                yield line
    except FileNotFoundError as error:
        raise UserError(f"there is no file or directory {path}") from error
    except OSError as error:
        raise UserError(f"{path} is no file of records that can be read: {error.strerror}") from error


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
    lines = [to_json(summary.to_dict(), separators=(",", ":")) for summary in summaries]
    path.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(path, b"".join(lines))
