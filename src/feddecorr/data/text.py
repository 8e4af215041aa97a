"""Text as windows of characters, from which to predict the next one; and a small text that needs no download."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from typing import NamedTuple

import numpy as np
import torch
from pydantic import Field, field_validator
from torch import Tensor

from feddecorr.core.limits import Allowance, check_class_names, check_classes, check_width
from feddecorr.data.dataset import Augmentation, Data, Dataset, Images, content_digest

WINDOW = 16
"""Characters from which the next one is predicted, by default."""


class Passages(NamedTuple):
    """Pieces of text, and the character that follows each."""

    before: Sequence[str]
    following: Sequence[str]


def from_text(train: Passages, test: Passages, *, window: int, owners: Tensor, allowance: Allowance) -> Dataset:
    """Return the last characters of each piece as ones and zeros, one for each character of the alphabet.

    A character that is not there, since a piece is shorter, is all zeros. Nothing is standardized.
    """
    alphabet = sorted(set().union(*train.before, train.following, *test.before, test.following))
    check_classes(len(alphabet))
    check_width(window * len(alphabet))
    check_class_names(alphabet)
    allowance.take((len(train.before) + len(test.before)) * window * (len(alphabet) + np.dtype(np.int64).itemsize))
    mine, theirs = (
        Images(_one_hot(before, alphabet, window), _places(following, alphabet).flatten())
        for before, following in (train, test)
    )
    zeros, ones = (0.0,) * len(alphabet), (1.0,) * len(alphabet)
    return Dataset(mine, theirs, tuple(alphabet), zeros, ones, content_digest(mine, theirs, owners), owners=owners)


def _places(pieces: Sequence[str], alphabet: Sequence[str]) -> Tensor:
    """Return the place of each character in the alphabet, of pieces of the same length."""
    codes = np.frombuffer("".join(pieces).encode("utf-32-le"), np.uint32).reshape(len(pieces), -1)
    return torch.from_numpy(np.searchsorted(list(map(ord, alphabet)), codes))


def _one_hot(pieces: Sequence[str], alphabet: Sequence[str], window: int) -> Tensor:
    lengths = torch.tensor([len(piece) for piece in pieces])
    places = _places([piece[-window:].rjust(window, alphabet[0]) for piece in pieces], alphabet)
    pixels = torch.zeros(*places.shape, 1, len(alphabet), dtype=torch.uint8)
    there = (torch.arange(window) >= window - lengths[:, None]).to(torch.uint8)
    return pixels.scatter_(3, places[:, :, None, None], there[:, :, None, None])


class Speeches(Data):
    """Famous speeches of six characters of Shakespeare, embedded: from the last letters, the next one; for model=mlp.

    Whose words they are is known: clients=6 partition=given. The last fifth of each speech is for testing. LEAF's
    Shakespeare has hundreds of characters: data=leaf:FOLDER data.kind=text.
    """

    window: int = Field(WINDOW, ge=1, le=80, description="letters from which the next one is predicted")

    @field_validator("augment")
    @classmethod
    def _refuse(cls, augment: tuple[Augmentation, ...]) -> tuple[Augmentation, ...]:
        if augment:
            raise ValueError("augmentation is for images, not for text")
        return augment

    @property
    def images(self) -> bool:
        """False."""
        return False

    def read(self) -> Dataset:
        """Return the letters in lower case; no window of a test letter reaches into what is trained on."""
        lines = (files("feddecorr.data") / "speeches.txt").read_text("utf-8").lower().splitlines()
        speeches = [line.partition(": ")[2] for line in lines]
        parts = [[speech[: len(speech) * 4 // 5] for speech in speeches]]
        parts.append([speech[len(speech) * 4 // 5 :] for speech in speeches])
        train, test = (_passages(part, self.window) for part in parts)
        owners = torch.arange(len(speeches)).repeat_interleave(torch.tensor([len(speech) - 1 for speech in parts[0]]))
        return from_text(train, test, window=self.window, owners=owners, allowance=Allowance(0))


def _passages(speeches: Sequence[str], window: int) -> Passages:
    ends = [(speech, end) for speech in speeches for end in range(1, len(speech))]
    return Passages([speech[max(0, end - window) : end] for speech, end in ends], [speech[end] for speech, end in ends])
