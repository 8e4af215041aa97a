"""What is kept of one round: a value in memory, and a line of JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from feddecorr.collapse.averaging import Averaging
from feddecorr.collapse.diagnosis import Diagnosis
from feddecorr.rounds import Round
from feddecorr.runs.rhythm import Evaluated
from feddecorr.states import State


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
    def of(cls, now: Round, found: Evaluated, seconds: float) -> Record:
        """Put together what a round and its evaluations gave."""
        return cls(
            round=now.number,
            clients=now.clients,
            terms=now.terms,
            seconds=seconds,
            model=found.model,
            local_models=found.local,
            averaging=found.averaging,
            missing=now.missing,
            notes=now.notes,
            local_terms=now.local_terms,
            state={**now.server.weights, **now.server.buffers},
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
        """Return what `to_dict` wrote; the state is empty."""
        model, averaging = document["model"], document["averaging"]
        local = _by_client(document["local_models"])
        return cls(
            round=document["round"],
            clients=document["clients"],
            terms=document["terms"],
            seconds=document["seconds"],
            model=None if model is None else Diagnosis.from_dict(model),
            local_models={client: Diagnosis.from_dict({**found, "client": client}) for client, found in local.items()},
            averaging=None if averaging is None else Averaging(**averaging),
            missing=_by_client(document["missing"]),
            notes=_by_client(document.get("notes", {})),
            local_terms=_by_client(document["local_terms"]),
        )


def _by_client(table: Mapping[str, Any]) -> dict[int, Any]:
    return {int(client): value for client, value in table.items()}
