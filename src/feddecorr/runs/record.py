"""What is kept of one round: a value in memory, and a line of JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, get_type_hints

from pydantic import Field, PositiveInt, create_model

from feddecorr.collapse.averaging import Averaging
from feddecorr.collapse.diagnosis import Diagnosis
from feddecorr.collapse.measures import is_recorded
from feddecorr.core.registry import Config
from feddecorr.core.states import State
from feddecorr.runs.eval_schedule import Evaluated
from feddecorr.server.rounds import Round


@dataclass(frozen=True, kw_only=True)
class Record:
    """One round, as it is kept.

    `terms` are the objective's summands as the clients saw them, averaged; `local_terms` are each client's own,
    the mean of every local epoch. `model` is the global model after the round, `local_models` are the clients'
    models before they were averaged, each with what a run records of its representations of the test images; a
    model that was not evaluated is not there. `averaging` compares those models with their average. `missing` says of
    each client that took no part in the end, why, `notes` what is to be known of others (such as that a node had lost
    what its client remembered).
    `state` is the global model, as a module's `load_state_dict` takes it; it has a file of its own.
    """

    round: int
    clients: list[int]
    terms: dict[str, float]
    seconds: float
    model: Diagnosis | None = None
    local_models: dict[int, Diagnosis] = field(default_factory=dict)
    averaging: Averaging | None = None
    missing: dict[int, str] = field(default_factory=dict)
    notes: dict[int, str] = field(default_factory=dict)
    local_terms: dict[int, dict[str, list[float]]] = field(default_factory=dict)
    state: State = field(default_factory=dict, repr=False, compare=False)

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
        return {
            "round": self.round,
            "clients": self.clients,
            "terms": self.terms,
            "seconds": self.seconds,
            "missing": {str(client): why for client, why in self.missing.items()},
            **({"notes": {str(client): what for client, what in self.notes.items()}} if self.notes else {}),
            "model": None if self.model is None else self.model.recorded(),
            "local_models": {str(client): found.recorded() for client, found in self.local_models.items()},
            "averaging": None if self.averaging is None else asdict(self.averaging),
            "local_terms": {str(client): terms for client, terms in self.local_terms.items()},
        }

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Record:
        """Return what `to_dict` wrote; the state is empty. What is not of the right type is a `UserError`."""
        line = RoundLine.parse(document)
        return cls(
            round=line.round,
            clients=line.clients,
            terms=line.terms,
            seconds=line.seconds,
            model=None if line.model is None else _diagnosis(line.model),
            local_models={client: _diagnosis(found, client) for client, found in line.local_models.items()},
            averaging=line.averaging,
            missing=line.missing,
            notes=line.notes,
            local_terms=line.local_terms,
        )


def _joined(one: Mapping[int, str], other: Mapping[int, str]) -> dict[int, str]:
    """Return the notes of both, by client."""
    clients = [*one, *(client for client in other if client not in one)]
    return {client: "; ".join(notes[client] for notes in (one, other) if client in notes) for client in clients}


def _recorded() -> type[Config]:
    """Return what is recorded of a model as a kind that knows the types of all fields."""
    hints = get_type_hints(Diagnosis)
    known: Any = {each.name: (hints[each.name] | None, None) for each in fields(Diagnosis) if is_recorded(each)}
    return create_model("Recorded", __base__=Config, **known)


Recorded = _recorded()


class RoundLine(Config):
    """The line of a round, as it is read: JSON's keys are strings, those of clients become numbers."""

    round: PositiveInt
    clients: list[int]
    terms: dict[str, float]
    seconds: float
    missing: dict[int, str]
    notes: dict[int, str] = Field(default_factory=dict)
    averaging: Averaging | None
    model: Recorded | None  # type: ignore[valid-type]  # made above, from the fields of a diagnosis
    local_models: dict[int, Recorded]  # type: ignore[valid-type]  # see above
    local_terms: dict[int, dict[str, list[float]]]


def _diagnosis(found: Config, client: int | None = None) -> Diagnosis:
    known = found.model_dump(exclude_unset=True)
    return Diagnosis.from_dict(known if client is None else {**known, "client": client})
