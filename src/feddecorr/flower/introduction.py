"""What a node tells the server before the first round, and what the server makes of all of them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache, reduce
from operator import add

import numpy as np
from pydantic import TypeAdapter, ValidationError

from feddecorr.data.dataset import Dataset, Images, PixelSums
from feddecorr.errors import UserError
from feddecorr.federation import Federation, Roster, Task
from feddecorr.settings.experiment import Experiment

Constants = tuple[tuple[float, ...], tuple[float, ...]]
"""Mean and standard deviation of each channel."""


@dataclass(frozen=True)
class Introduction:
    """What a node says of itself; `constants` are those of a known data set of which it holds a part."""

    client: int
    examples: int
    shape: tuple[int, int, int]
    classes: tuple[str, ...]
    sums: PixelSums
    constants: Constants | None = None

    def to_bytes(self) -> bytes:
        """Return it as JSON."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def from_bytes(cls, content: bytes) -> Introduction:
        """Return what a node wrote, or refuse it."""
        try:
            found = _check().validate_json(content, strict=True)
        except ValidationError as error:
            raise UserError(f"this is no introduction: {error.errors()[0]['msg']}") from error
        if found.client < 0 or found.examples < 1 or min(found.shape) < 1 or not found.classes:
            raise UserError(f"client {found.client} has {found.examples} examples of shape {found.shape}")
        return found


@cache
def _check() -> TypeAdapter[Introduction]:
    return TypeAdapter(Introduction)  # which takes milliseconds


def federation_of(experiment: Experiment, introductions: Sequence[Introduction], test: Dataset | None) -> Federation:
    """Return what the server has, from what all clients said, in their order."""
    first = introductions[0]
    for other in introductions:
        if other.shape != first.shape:
            raise UserError(
                f"client {first.client} has images of shape {first.shape}, client {other.client} of {other.shape}"
            )
    constants = {each.constants for each in introductions}
    sums = reduce(add, (each.sums for each in introductions))
    known = next(iter(constants)) if len(constants) == 1 else None
    mean, std = known or (sums.mean, sums.std)
    classes = _classes([each.classes for each in introductions])
    told = json.dumps([asdict(each) for each in introductions])
    return Federation(
        task=Task(experiment, first.shape, classes, mean, std),
        roster=Roster(np.array([each.examples for each in introductions])),
        test=None if test is None else relabelled(test.test, test.classes, classes),
        note="" if test is None else test.note,
        split=hashlib.sha256(told.encode()).hexdigest(),
    )


def _classes(lists: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """Return the classes of all: the longest list, if the others begin it, and else all names in their order."""
    longest = max(lists, key=len)
    if all(longest[: len(names)] == names for names in lists):
        return longest
    return tuple(sorted({name for names in lists for name in names}))


def relabelled(images: Images, classes: tuple[str, ...], common: tuple[str, ...]) -> Images:
    """Return the images with labels that count the common classes in place of their own."""
    places = [common.index(name) if name in common else -1 for name in classes]
    labels = images.labels.new_tensor(places)[images.labels]
    if int(labels.min()) < 0:
        raise UserError(f"there are images of other classes ({', '.join(classes)}) than {', '.join(common)}")
    return Images(images.pixels, labels)
