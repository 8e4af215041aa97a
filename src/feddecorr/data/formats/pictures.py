"""Picture files (JPEG, PNG and whatever else Pillow reads) as arrays of bytes."""

from __future__ import annotations

import warnings
from io import BytesIO
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from feddecorr.errors import UserError

GREY_MODES = ("1", "L", "LA")

SUFFIXES = {".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp"}
"""How the names of pictures end."""


def decode(name: str, content: bytes, *, size: int | None = None, grey: bool = False) -> NDArray[np.uint8]:
    """Return (height, width, 3) values of a picture, or (height, width, 1) if grey; resized to a square of `size`."""
    try:
        with warnings.catch_warnings(), Image.open(BytesIO(content)) as picture:
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            return to_array(picture, size=size, grey=grey)
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise UserError(f"{name}: no picture, or cut off ({len(content):,} bytes): {error}") from error


def to_array(picture: Image.Image, *, size: int | None = None, grey: bool = False) -> NDArray[np.uint8]:
    """Return the values of an open picture, as `decode` does."""
    plain = picture.convert("L" if grey else "RGB")
    if size is not None and plain.size != (size, size):
        plain = plain.resize((size, size), Image.Resampling.BILINEAR)
    values = np.asarray(plain)
    return values[:, :, np.newaxis] if grey else values


def is_grey(path: Path) -> bool:
    """Say whether a picture has no colours by its kind, without decoding it."""
    try:
        with Image.open(path) as picture:
            return picture.mode in GREY_MODES
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise UserError(f"{path}: no picture: {error}") from error
