"""Picture files as arrays of bytes: a few named formats, and nothing else that Pillow could read."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from io import BytesIO

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError
from torch import Tensor

from feddecorr.core.limits import TOTAL, Allowance, brief
from feddecorr.errors import UserError

FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")
"""The formats that are opened, whatever a file's name: others start programs (EPS) or are rarely tested."""

SUFFIXES = {".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp"}
"""Endings of picture files."""

GREY_MODES = ("1", "L", "LA", "I;16", "I;16B", "I;16L", "I;16N")
COLOUR_MODES = ("P", "PA", "RGB", "RGBA", "RGBX", "RGBa", "La", "CMYK", "YCbCr", "LAB", "HSV")
"""Modes of Pillow with eight bits a channel, or sixteen of grey."""

PIXELS = 89_000_000
"""Maximal number of pixels."""

SMALL, PACKED = 4_000_000, 1000
"""Pixels that any file may claim, and how many more for each of its bytes: real pictures never compress better."""

SCANS = 100
"""Maximal number of scans of a JPEG, each of which covers all pixels: progressive pictures have about ten."""

BITS, TILE_WIDTH, TILE_LENGTH = 258, 322, 323
"""TIFF tags."""


def decode(name: str, content: bytes, *, size: int | None = None, grey: bool = False) -> NDArray[np.uint8]:
    """Return (height, width, 3) values of a picture, or (height, width, 1) if grey; resized to a square of `size`.

    A photograph is rotated by its EXIF orientation. Of sixteen bits the upper eight are used, in grey pictures as in
    coloured ones; pixels without a range to scale by (floats, 32 bits) are refused.
    """
    with _opened(name, content) as picture:
        ImageOps.exif_transpose(picture, in_place=True)  # avoids a copy, as do the next lines: pictures may be large
        mode = "L" if grey else "RGB"
        plain = _eight_bits(picture)
        plain = plain if plain.mode == mode else plain.convert(mode)
        if size is not None and plain.size != (size, size):
            plain = plain.resize((size, size), Image.Resampling.BILINEAR)
        values = np.asarray(plain)
        return values[:, :, np.newaxis] if grey else values


def is_grey(name: str, content: bytes) -> bool:
    """Say whether a picture's mode has no colours, without decoding it."""
    with _opened(name, content) as picture:
        return picture.mode in GREY_MODES or _is_deep_pgm(picture)


def allowance_of(length: int) -> Allowance:
    """Return the memory that pixels may take, for picture files of that total length."""
    return Allowance(length, least=TOTAL, hint=": data.size=64, or less, makes pictures smaller")


def decode_all(
    pictures: Iterable[tuple[str, bytes]], count: int, *, allowance: Allowance, size: int | None, grey: bool
) -> Tensor:
    """Decode `count` pictures, given with their names, to pixels of shape (count, height, width, channels)."""
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


@contextmanager
def _opened(name: str, content: bytes) -> Iterator[Image.Image]:
    """Open a picture that is safe to decode; warnings about odd metadata are suppressed."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with Image.open(BytesIO(content), formats=FORMATS) as picture:
                _check_size(picture, len(content))
                _check_kind(picture, content)
                yield picture
    except MemoryError:
        raise
    except Exception as error:  # a broken picture can raise anything at all
        reason = f"none of {', '.join(FORMATS)}" if isinstance(error, UnidentifiedImageError) else str(error)
        raise UserError(f"{name}: not a picture, or cut off ({len(content):,} bytes): {brief(reason)}") from error


def _check_size(picture: Image.Image, length: int) -> None:
    """Refuse a picture that would fill the memory, before a pixel is decoded."""
    sizes = [(picture.width, picture.height)]
    if picture.format == "TIFF":  # whose tiles are decoded whole, even where they reach beyond the picture
        tags = picture.tag_v2  # type: ignore[attr-defined]
        sizes.append((int(tags.get(TILE_WIDTH, 1)), int(tags.get(TILE_LENGTH, 1))))
    for width, height in sizes:
        if width * height > min(PIXELS, SMALL + PACKED * length):
            raise ValueError(f"refused, for it claims to have {width:,} × {height:,} pixels")


def _check_kind(picture: Image.Image, content: bytes) -> None:
    """Refuse pixels that cannot be converted to bytes, or not in reasonable time."""
    if picture.mode not in GREY_MODES + COLOUR_MODES and not _is_deep_pgm(picture):
        raise ValueError(f"its pixels have the mode {picture.mode}: convert it to 8 bits a channel")
    if picture.mode.startswith("I;16") and picture.format == "TIFF":
        bits = picture.tag_v2.get(BITS, (16,))  # type: ignore[attr-defined]
        if tuple(bits) != (16,):
            raise ValueError(f"its pixels have {bits[0]} bits: convert it to 8 bits a channel")
    if picture.format in ("JPEG", "MPO") and content.count(b"\xff\xda") > SCANS:
        raise ValueError(f"refused, for it has more than {SCANS} scans")


def _is_deep_pgm(picture: Image.Image) -> bool:
    """Say whether it is a grey picture of sixteen bits, which Pillow opens as one of 32."""
    return picture.format == "PPM" and picture.mode == "I"


def _eight_bits(picture: Image.Image) -> Image.Image:
    if picture.mode.startswith("I;16") or picture.mode == "I":
        return Image.fromarray((np.asarray(picture) >> 8).astype(np.uint8))
    return picture
