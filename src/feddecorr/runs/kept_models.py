"""The local models of a round on disk, and what can be made of them: a hundred do not fit into memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from feddecorr.core.files import load_tensors, save_tensors
from feddecorr.core.messages import Update
from feddecorr.core.states import Mean, State


@dataclass(frozen=True)
class KeptModels:
    """Weights and statistics of each client in a folder; `mean` is how they become those of the average."""

    folder: Path
    mean: type[Mean]
    examples: dict[int, int] = field(default_factory=dict)

    def keep(self, update: Update) -> None:
        """Keep a client's model."""
        save_tensors(self._file(update.client), {**update.weights, **update.buffers})
        self.examples[update.client] = update.examples

    def model(self, client: int) -> State:
        """Return a client's model."""
        return load_tensors(self._file(client))

    def average(self, *, but: int | None = None) -> State:
        """Return the average by numbers of examples, of all or of all others, to the last bit as a server has it."""
        mean = self.mean()
        for client, examples in self.examples.items():
            if client != but:
                mean.add(self.model(client), examples)
        return mean.value

    def _file(self, client: int) -> Path:
        return self.folder / f"{client}.safetensors"


def between(start: State, end: State, share: float) -> State:
    """Return the model that lies at that share of the straight way from one to another."""
    mean = Mean()
    mean.add(start, 1 - share)
    mean.add(end, share)
    return mean.value
