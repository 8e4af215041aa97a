"""Picture files (JPEG, PNG and whatever else Pillow reads) as arrays of bytes."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from feddecorr.errors import UserError

GREY_MODES = ("1", "L", "LA")

SUFFIXES = {".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp"}
"""How the names of pictures end."""

PIXELS = 89_000_000
"""Pixels of a picture at most."""

SMALL, PACKED = 4_000_000, 1000
"""Pixels that any file may claim to have, and how many more for each of its bytes: pictures are not packed better."""


def decode(name: str, content: bytes, *, size: int | None = None, grey: bool = False) -> NDArray[np.uint8]:
    """Return (height, width, 3) values of a picture, or (height, width, 1) if grey; resized to a square of `size`.

    A photograph is turned as its camera was held (EXIF's orientation).
    """
    try:
        with _opened(BytesIO(content)) as picture:
            _check_size(picture, len(content))
            return to_array(picture, size=size, grey=grey)
    except MemoryError:
        raise
    except Exception as error:  # a broken picture can raise anything at all
        raise UserError(f"{name}: no picture, or cut off ({len(content):,} bytes): {error}") from error


def to_array(picture: Image.Image, *, size: int | None = None, grey: bool = False) -> NDArray[np.uint8]:
    """Return the values of an open picture, as `decode` does."""
    ImageOps.exif_transpose(picture, in_place=True)  # without a copy, as the next line: pictures may be large
    mode = "L" if grey else "RGB"
    plain = picture if picture.mode == mode else picture.convert(mode)
    if size is not None and plain.size != (size, size):
        plain = plain.resize((size, size), Image.Resampling.BILINEAR)
    values = np.asarray(plain)
    return values[:, :, np.newaxis] if grey else values


def _check_size(picture: Image.Image, length: int) -> None:
    """Refuse what would fill the memory, before a pixel is decoded."""
    pixels = picture.width * picture.height
    if pixels > min(PIXELS, SMALL + PACKED * length):
        raise ValueError(f"refused, for it claims to have {picture.width:,} × {picture.height:,} pixels")


def is_grey(path: Path) -> bool:
    """Say whether a picture has no colours by its kind, without decoding it."""
    try:
        with _opened(path) as picture:
            return picture.mode in GREY_MODES
    except Exception as error:  # a broken picture can raise anything at all
        raise UserError(f"{path}: no picture: {error}") from error


@contextmanager
def _opened(source: Path | BytesIO) -> Iterator[Image.Image]:
    """Open a picture, and say nothing of odd notes beside the pixels."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with Image.open(source) as picture:
            yield picture
