"""What the server knows of its clients, in a file: a few bytes for each client, however many classes there are."""

from __future__ import annotations

import numpy as np
import torch

from feddecorr.core.files import AnyPath, load_note, load_tensors, reading, save_tensors
from feddecorr.partition.heterogeneity import LabelCounts
from feddecorr.server.federation import Roster

ENTRIES = ("client", "label", "count")


def write_roster(path: AnyPath, roster: Roster) -> None:
    """Write everybody's number of examples and, where it is known, how many are of which class."""
    arrays = {"sizes": roster.sizes.astype(np.int32)}
    note = {}
    if roster.labels is not None:
        arrays |= {name: getattr(roster.labels, name) for name in ENTRIES}
        note["classes"] = str(roster.labels.classes)
    save_tensors(path, {name: torch.from_numpy(array) for name, array in arrays.items()}, note)


def read_roster(path: AnyPath) -> Roster:
    """Return what `write_roster` wrote."""
    arrays = {name: tensor.numpy() for name, tensor in load_tensors(path).items()}
    note = load_note(path)
    with reading(path):
        sizes = arrays.pop("sizes").astype(np.int64)
        if not arrays:
            return Roster(sizes)
        labels = LabelCounts(len(sizes), int(note["classes"]), **arrays)
        for name, bound in (("client", len(sizes)), ("label", labels.classes), ("count", 2**31)):
            values = getattr(labels, name)
            if values.shape != labels.count.shape or values.ndim != 1 or values.dtype != np.int32:
                raise ValueError(f"'{name}' is {values.dtype} of shape {values.shape}")
            if len(values) and not 0 <= values.min() <= values.max() < bound:
                raise ValueError(f"'{name}' has values outside of 0 to {bound - 1}")
        return Roster(sizes, labels)
