"""The file with which a round counts: the model, and a mark of all else that belongs to that round."""

from __future__ import annotations

from pydantic import PositiveInt

from feddecorr.core.files import AnyPath, load_note, reading, save_tensors
from feddecorr.core.parsing import parse_json
from feddecorr.core.registry import Config
from feddecorr.core.states import State

KEY = "run"
"""The one key of the note: of several, the order in the file would be by chance, and so its bytes."""


class Mark(Config):
    """The round, the digest of what the method keeps, and the tally of what clients remember."""

    round: PositiveInt
    server: str
    memories: str


def write_weights(path: AnyPath, weights: State, mark: Mark) -> None:
    """Replace the file in one step."""
    save_tensors(path, weights, {KEY: mark.model_dump_json()})


def read_mark(path: AnyPath) -> Mark:
    """Return the mark of the file, without its tensors."""
    note = load_note(path)
    with reading(path):
        return Mark.parse(parse_json(note[KEY].encode()))
