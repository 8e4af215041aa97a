"""Data summaries: what nodes report about their data before the first round, and the federation they make up."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import reduce
from operator import add

import numpy as np
from pydantic import TypeAdapter, ValidationError

from feddecorr.config.experiment import Experiment
from feddecorr.core.checks import MOST_CLASSES, MOST_EXAMPLES, NAME, Check, ListOf, Real, Whole, check_fields, printable
from feddecorr.data.dataset import Dataset, Images, PixelSums
from feddecorr.errors import UserError
from feddecorr.server.federation import Federation, Roster
from feddecorr.training.task import Task

MAX_PIXELS = 1 << 27
"""Upper bound on the numbers in an image."""

MIN_STD = 1e-6
"""Lower bound on a channel's standard deviation, in units of its pixels; a network's input is divided by it."""

FIELDS: dict[str, Check] = {
    "client": Whole(0, MOST_EXAMPLES),
    "examples": Whole(1, MOST_EXAMPLES),
    "shape": ListOf(Whole(1, MAX_PIXELS), 3, 3),
    "classes": ListOf(NAME, MOST_CLASSES, 1),
}
"""The range of each field; whether they fit together is checked later."""

Constants = tuple[tuple[float, ...], tuple[float, ...]]
"""Mean and standard deviation of each channel."""


@dataclass(frozen=True)
class DataSummary:
    """What a node reports about its data; `constants` are those of a public data set of which it holds a part."""

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
    def from_bytes(cls, content: bytes) -> DataSummary:
        """Parse what a node sent; raise with the field that is wrong."""
        try:
            found = STRUCTURE.validate_json(content, strict=True)
        except ValidationError as error:
            raise UserError(printable(f"this is not a data summary: {error.errors()[0]['msg']}")) from error
        check_fields(found, FIELDS)
        channels, height, width = found.shape
        if channels * height * width > MAX_PIXELS:
            raise UserError(f"shape={found.shape}: an image has at most {MAX_PIXELS} numbers")
        if len(set(found.classes)) < len(found.classes):
            raise UserError("a class is named twice")
        if found.sums.count != found.examples * height * width or len(found.sums.sums) != channels:
            raise UserError(
                f"sums over {found.sums.count} pixels of {len(found.sums.sums)} channels are not those of "
                f"{found.examples} images of shape {found.shape}"
            )
        if found.constants is not None:
            ListOf(ListOf(Real(), channels, channels), 2, 2)(found.constants, "constants")
            ListOf(Real(low=MIN_STD), channels, channels)(found.constants[1], "constants.1")
        return found

    def differences(self, before: DataSummary) -> str:
        """Return how the data differ from those of an earlier summary; empty if they do not."""
        if self == before:
            return ""
        found = []
        if self.examples != before.examples:
            found.append(f"{self.examples} examples, no longer {before.examples}")
        if self.shape != before.shape:
            found.append(f"{self.shape} as the shape of images, no longer {before.shape}")
        for what, here, there in (("new", self.classes, before.classes), ("gone", before.classes, self.classes)):
            if names := [name for name in here if name not in there]:
                found.append(f"the class{'es' if len(names) > 1 else ''} {', '.join(names)} {what}")
        return f"it came back with other data ({'; '.join(found) or 'other pixels'})"


STRUCTURE = TypeAdapter(DataSummary)


def misfits(summaries: Mapping[int, DataSummary], test: Dataset | None) -> dict[int, str]:
    """Return the clients that cannot participate, and why.

    Images have the server's shape or, if it has none, most clients'; while all clients together name too many
    classes, the one that names the most is left out.
    """
    shapes = Counter(each.shape for each in summaries.values())
    common, whose = (shapes.most_common(1)[0][0], "most clients'") if test is None else (test.shape, "the server's")
    found = {
        client: f"its images have the shape {each.shape}, {whose} {common}: data.size at the node resizes them"
        for client, each in summaries.items()
        if each.shape != common
    }
    names = {client: each.classes for client, each in summaries.items() if client not in found}
    while len(together := {name for classes in names.values() for name in classes}) > MOST_CLASSES:
        most = max(names, key=lambda client: len(names[client]))
        found[most] = (
            f"it names {len(names.pop(most))} classes, and all clients together {len(together)}, more than "
            f"{MOST_CLASSES}"
        )
    return found


def federation_of(experiment: Experiment, summaries: Mapping[int, DataSummary], test: Dataset | None) -> Federation:
    """Return the federation of the clients' summaries; clients without one have no examples."""
    known = [summaries[client] for client in sorted(summaries)]
    constants = {each.constants for each in known}
    sums = reduce(add, (each.sums for each in known))
    shared = next(iter(constants)) if len(constants) == 1 else None
    mean, std = shared or (sums.mean, sums.std)
    classes = common_classes([each.classes for each in known])
    sizes = np.zeros(experiment.clients, dtype=np.int64)
    sizes[sorted(summaries)] = [each.examples for each in known]
    return Federation(
        task=Task(experiment, known[0].shape, classes, mean, std),
        roster=Roster(sizes),
        test=None if test is None else relabelled(test.test, test.classes, classes),
        note="" if test is None else test.note,
        split=hashlib.sha256(json.dumps([asdict(each) for each in known]).encode()).hexdigest(),
    )


def common_classes(lists: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """Return all classes: the longest list, if all others are prefixes of it, and otherwise all names, sorted."""
    longest = max(lists, key=len)
    if all(longest[: len(names)] == names for names in lists):
        return longest
    together = {name for names in lists for name in names}
    if len(together) > MOST_CLASSES:
        raise UserError(f"all clients together name {len(together)} classes, more than {MOST_CLASSES}")
    return tuple(sorted(together))


def relabelled(images: Images, classes: tuple[str, ...], common: tuple[str, ...]) -> Images:
    """Return the images with labels numbered by the common classes."""
    places = [common.index(name) if name in common else -1 for name in classes]
    labels = images.labels.new_tensor(places)[images.labels]
    if int(labels.min()) < 0:
        raise UserError(f"there are images of other classes ({', '.join(classes)}) than {', '.join(common)}")
    return Images(images.pixels, labels)
