"""Many pictures of one size as one array."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import torch
from torch import Tensor

from feddecorr.core.limits import TOTAL, Allowance
from feddecorr.data.formats.pictures import decode
from feddecorr.errors import UserError


def allowance_of(length: int) -> Allowance:
    """Return what the pixels of pictures may take whose files have that length together."""
    return Allowance(length, least=TOTAL, hint=": data.size=64, or less, makes pictures smaller")


def decode_all(
    pictures: Iterable[tuple[str, bytes]], count: int, *, allowance: Allowance, size: int | None, grey: bool
) -> Tensor:
    """Return so many pictures, given with their names, as pixels of shape (count, height, width, channels)."""
    pixels, first, place = None, "", -1
    for place, (name, content) in enumerate(pictures):
        if place >= count:
            raise UserError(f"{name}: there are more pictures than labels, which are {count:,}")
        values = decode(name, content, size=size, grey=grey)
        if pixels is None:
            try:
                allowance.take(count * values.nbytes)
            except UserError as error:
                raise UserError(f"{name} and {count - 1:,} more pictures: {error}") from error
            pixels, first = np.empty((count, *values.shape), np.uint8), name
        if values.shape != pixels.shape[1:]:
            (height, width, _), (rows, columns, _) = values.shape, pixels.shape[1:]
            raise UserError(
                f"{name}: {width}×{height} pixels, where {first} has {columns}×{rows}; "
                f"data.size={min(rows, columns)} resizes all"
            )
        pixels[place] = values
    if pixels is None or place + 1 < count:
        raise UserError(f"there are {place + 1:,} pictures, but {count:,} labels")
    return torch.from_numpy(pixels)
