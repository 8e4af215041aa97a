"""What a tracker is told of a run, in words that all of them share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

from feddecorr.runs.record import Record

ARTIFACTS = ("experiment.json", "environment.json", "federation.json", "weights.safetensors")
"""The files of a run that a tracker keeps, when it is done."""


@dataclass(frozen=True)
class Entry:
    """A round, as a tracker is told of it: numbers by name, and spectra."""

    round: int
    scalars: dict[str, float]
    spectra: dict[str, Sequence[float]]

    @classmethod
    def of(cls, record: Record) -> Entry:
        """Read a record: the global model's measures by their names, terms and clients below folders of theirs."""
        scalars: dict[str, float] = {"seconds": record.seconds, "missing": len(record.missing)}
        spectra: dict[str, Sequence[float]] = {}
        models = {"": record.model} | {f"clients/{client}/": found for client, found in record.local_models.items()}
        for place, model in models.items():
            for name, value in (model.recorded() | (model.measures or {}) if model else {}).items():
                if isinstance(value, int | float):
                    scalars[place + name] = float(value)
                elif name == "singular_values":
                    spectra[place + name] = value
        averaging = {} if record.averaging is None else asdict(record.averaging)
        scalars |= {f"averaging/{name}": value for name, value in averaging.items() if isinstance(value, int | float)}
        scalars |= {f"terms/{name}": value for name, value in record.terms.items()}
        for client, terms in record.local_terms.items():
            scalars |= {f"clients/{client}/terms/{name}": values[-1] for name, values in terms.items()}
        return cls(record.round, scalars, spectra)


class Tracker(ABC):
    """Writes what it is told to where its own tools find it: below the run's directory, unless they say otherwise.

    It is made anew whenever a run goes on; `number` is the last round that it was told of before.
    """

    past: ClassVar[str] = ""
    """How folders are called into which it never writes again; what is in them, links to its own logs too, is done."""

    @abstractmethod
    def __init__(self, folder: Path, *, name: str, digest: str, number: int) -> None: ...

    @abstractmethod
    def settings(self, flat: Mapping[str, Any]) -> None:
        """Note the experiment, by dotted names; told once, before the first round."""

    @abstractmethod
    def entry(self, entry: Entry) -> None:
        """Note a round."""

    @abstractmethod
    def artifacts(self, files: Sequence[Path]) -> None:
        """Keep files of the run; told once, when all rounds are done."""

    @abstractmethod
    def close(self) -> None:
        """Write down all that was told."""
