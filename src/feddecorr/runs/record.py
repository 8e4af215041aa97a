"""What is kept of one round: a value in memory, and a line of JSON in the run's file of rounds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache
from typing import Annotated, Any, get_type_hints

from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    PositiveInt,
    TypeAdapter,
    ValidationError,
    create_model,
)

from feddecorr.collapse.averaging import Averaging
from feddecorr.collapse.diagnosis import Diagnosis
from feddecorr.collapse.measures import is_recorded
from feddecorr.collapse.updates import LayerUpdates
from feddecorr.core.files import reading
from feddecorr.core.paths import MIB, InnerPath
from feddecorr.core.registry import Config, explain
from feddecorr.core.states import State
from feddecorr.core.text import parse_json, to_json
from feddecorr.errors import RunError, UserError, nearest
from feddecorr.models.partial import AdapterRanks
from feddecorr.runs.evaluation import Evaluated
from feddecorr.server.rounds import Round


@cache
def _recorded() -> type[Config]:
    """Return what is recorded of a model, with the types of all measures; each may be missing."""
    hints = get_type_hints(Diagnosis)
    known: Any = {each.name: (hints[each.name] | None, None) for each in fields(Diagnosis) if is_recorded(each)}
    return create_model("Recorded", __base__=Config, **known)


def _read_model(value: Any) -> Any:
    return value if value is None or isinstance(value, Diagnosis) else Diagnosis(**dict(_recorded().parse(value)))


ModelField = Annotated[
    Diagnosis, BeforeValidator(_read_model), PlainSerializer(lambda model: model.recorded(), return_type=dict[str, Any])
]
"""A model's diagnosis, of which the measures are written; a measure that a line lacks was not known to its writer."""


@dataclass(frozen=True, kw_only=True)
class Record:
    """One round, as it is kept.

    `terms` are the objective's summands as the clients saw them, averaged; `local_terms` are each client's own,
    the mean of every local epoch. `model` is the global model after the round, `local_models` are the clients'
    models before they were averaged, each with what a run records of its representations of the test images; a
    model that was not evaluated is not there. `averaging` compares those models with their average. `updates` has the
    ranks of the clients' changes and their alignment, by layer, where `evaluation.updates` asks for it. `missing` gives
    the reason for each client that took no part in the end, `notes` remarks on others (such as that a node had lost
    what its client remembered).
    `sent` are the bytes of the tensors that went to each client of the round, `received` those that came from each.
    `flops` are the floating-point operations of the round's local training, where `evaluation.flops` asks for them.
    `adapters` are the effective ranks of what adapters change each layer by, in evaluated rounds.
    `state` is the global model, as a module's `load_state_dict` takes it, or what is trained of it; it has a file of
    its own.

    A line without a field that came later is read, so every new field has a default. A line with a field that is not
    known here is refused by name: a newer version wrote it.
    """

    __pydantic_config__ = ConfigDict(arbitrary_types_allowed=True, allow_inf_nan=False)

    round: PositiveInt
    clients: list[int]
    terms: dict[str, float]
    seconds: float
    missing: dict[int, str] = field(default_factory=dict)
    notes: dict[int, str] = field(default_factory=dict)
    model: ModelField | None = None
    local_models: dict[int, ModelField] = field(default_factory=dict)
    averaging: Averaging | None = None
    updates: dict[str, LayerUpdates] = field(default_factory=dict)
    local_terms: dict[int, dict[str, list[float]]] = field(default_factory=dict)
    sent: int | None = None
    received: dict[int, int] = field(default_factory=dict)
    flops: float | None = None
    adapters: dict[str, AdapterRanks] = field(default_factory=dict)
    state: Annotated[State, Field(exclude=True)] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of(cls, now: Round, found: Evaluated, seconds: float, names: Mapping[str, str]) -> Record:
        """Put together what a round and its evaluations gave; `names` are those of the network's `state_dict`."""
        tensors = {**now.server.weights, **now.server.buffers}
        return cls(
            round=now.number,
            clients=now.clients,
            terms=now.terms,
            seconds=seconds,
            model=found.model,
            local_models=found.local,
            averaging=found.averaging,
            updates=found.updates,
            missing=now.missing,
            notes=_joined(now.notes, found.notes),
            local_terms=now.local_terms,
            sent=now.sent,
            received=now.received,
            adapters=found.adapters,
            state={name: tensors[known] for name, known in names.items()},
        )

    @property
    def accuracy(self) -> float | None:
        """Of the global model, a fraction of the test images; None where it was not evaluated, as all below."""
        return None if self.model is None else self.model.accuracy

    @property
    def loss(self) -> float | None:
        """The global model's mean cross-entropy on the test images."""
        return None if self.model is None else self.model.loss

    @property
    def effective_rank(self) -> float | None:
        """Exp of the entropy of the singular values."""
        return None if self.model is None else self.model.effective_rank

    @property
    def significant_singular_values(self) -> int | None:
        """How many singular values are above the paper's threshold."""
        return None if self.model is None else self.model.significant_singular_values

    @property
    def singular_values(self) -> list[float] | None:
        """Those of the covariance of the test images' representations, largest first."""
        return None if self.model is None else self.model.singular_values

    @property
    def measures(self) -> dict[str, float]:
        """Further measures of the global model by name, those of `evaluation.measures`."""
        return (self.model and self.model.measures) or {}

    def to_dict(self) -> dict[str, Any]:
        """Return all but the state, ready for JSON, whose keys are strings."""
        document: dict[str, Any] = _adapter().dump_python(self, warnings=False)
        return {
            name: {str(key): inner for key, inner in value.items()} if isinstance(value, dict) else value
            for name, value in document.items()
        }

    @classmethod
    def from_dict(cls, document: Any) -> Record:
        """Return what `to_dict` wrote; the state is empty. What is not of the right type is a `UserError`."""
        known = {each.name for each in fields(cls)} - {"state"}
        for name in document if isinstance(document, Mapping) else ():
            if name not in known:
                raise UserError(f"unknown field '{name}', perhaps of a newer version: {nearest(str(name), known)}")
        try:
            read = _adapter().validate_python(document)
        except ValidationError as error:
            raise UserError(explain(error)) from error
        found = {client: replace(model, client=client) for client, model in read.local_models.items()}
        return replace(read, local_models=found)


@cache
def _adapter() -> TypeAdapter[Record]:
    return TypeAdapter(Record)


def _joined(one: Mapping[int, str], other: Mapping[int, str]) -> dict[int, str]:
    """Return the notes of both, by client."""
    clients = [*one, *(client for client in other if client not in one)]
    return {client: "; ".join(notes[client] for notes in (one, other) if client in notes) for client in clients}


LONGEST = 256 * MIB
"""The most bytes of a line."""

MOST_BROKEN = 100
"""A file with more broken lines than that is no file of rounds."""


@dataclass(frozen=True)
class ReadLines:
    """What a file says of the first rounds: their records, and what is wrong with lines that cannot be read."""

    records: list[Record]
    problems: list[str]

    @property
    def whole(self) -> list[Record]:
        """The records of all of these rounds; refused where a line is missing or cannot be read."""
        if self.problems:
            raise UserError(self.problems[0])
        return self.records


class RoundLines:
    """The file `rounds.jsonl`; it may hold lines of rounds that do not count (yet), and half a line at its end."""

    def __init__(self, path: InnerPath) -> None:
        self.path = path

    def append(self, record: Record) -> None:
        """Add the line of a round; one that could not be read again is never written."""
        try:
            line = to_json(record.to_dict())
            _read(record.round, line)
        except (ValueError, TypeError, OverflowError, RecursionError) as error:
            unread = f"round {record.round} cannot be kept: its record could not be read again"
            raise RunError(f"{unread} ({error})") from error
        self.path.append(line)

    def read(self, count: int) -> ReadLines:
        """Return what there is of the first `count` rounds: a broken line costs its round, and no other."""
        records, problems = [], []
        found = 0
        for found, line in enumerate(self._lines(count), start=1):
            try:
                records.append(self._parse(found, line))
            except UserError as error:
                problems.append(str(error))
                if len(problems) > MOST_BROKEN:
                    raise UserError(f"{error}, and so it is with {MOST_BROKEN} lines before it") from error
        if found < count:
            problems.append(self._too_few(count, found))
        return ReadLines(records, problems)

    def read_one(self, number: int) -> Record:
        """Return the record of a round."""
        for found, line in enumerate(self._lines(number), start=1):
            if found == number:
                return self._parse(number, line)
        raise UserError(f"{self.path} has no line of round {number}")

    def cut(self, count: int) -> None:
        """Keep only the first lines; what is wrong in one of them stays as it is."""
        self.path.write(b"".join(self._lines(count)))

    def refuse_missing(self, count: int) -> None:
        """Refuse a file that has fewer lines; no round can be added in its place."""
        if (found := sum(1 for _ in self._lines(count))) < count:
            raise UserError(self._too_few(count, found))

    def _parse(self, number: int, line: bytes) -> Record:
        with reading(self.path, number):
            return _read(number, line)

    def _too_few(self, count: int, found: int) -> str:
        return f"{self.path}: {count} rounds are finished, but it has {found} whole lines"

    def _lines(self, count: int) -> Iterator[bytes]:
        """Yield the first whole lines; of one that is too long, its beginning."""
        if not count:
            return
        with reading(self.path), self.path.open() as descriptor, open(descriptor, "rb", closefd=False) as file:
            for _ in range(count):
                line = file.readline(LONGEST + 1)
                rest = line
                while len(rest) > LONGEST and not rest.endswith(b"\n"):
                    rest = file.readline(LONGEST + 1)
                if not rest.endswith(b"\n"):
                    return
                yield line


def _read(number: int, line: bytes) -> Record:
    if len(line) > LONGEST:
        raise UserError(f"it is longer than {LONGEST} bytes")
    record = Record.from_dict(parse_json(line))
    if record.round != number:
        raise UserError(f"round {record.round} in place of {number}")
    return record
