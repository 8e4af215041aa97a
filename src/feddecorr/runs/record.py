"""What is kept of one round: a value in memory, and a line of JSON."""

from __future__ import annotations

from collections.abc import Mapping
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
from feddecorr.core.registry import Config, explain
from feddecorr.core.states import State
from feddecorr.errors import UserError, nearest
from feddecorr.runs.eval_schedule import Evaluated
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
    model that was not evaluated is not there. `averaging` compares those models with their average. `missing` gives
    the reason for each client that took no part in the end, `notes` remarks on others (such as that a node had lost
    what its client remembered).
    `state` is the global model, as a module's `load_state_dict` takes it; it has a file of its own.

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
    local_terms: dict[int, dict[str, list[float]]] = field(default_factory=dict)
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
            missing=now.missing,
            notes=_joined(now.notes, found.notes),
            local_terms=now.local_terms,
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
