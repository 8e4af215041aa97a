"""Picture files as arrays of bytes: a few formats by name, and nothing else that Pillow could read."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError

from feddecorr.core.limits import brief
from feddecorr.errors import UserError

FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")
"""What is opened, whatever a file's name says: others start programs (EPS) or are hardly tried."""

SUFFIXES = {".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp"}
"""How the names of pictures end."""

GREY_MODES = ("1", "L", "LA", "I;16", "I;16B", "I;16L", "I;16N")
COLOUR_MODES = ("P", "PA", "RGB", "RGBA", "RGBX", "RGBa", "La", "CMYK", "YCbCr", "LAB", "HSV")
"""Kinds of pixels: eight bits a channel, or sixteen of grey."""

PIXELS = 89_000_000
"""Pixels of a picture at most."""

SMALL, PACKED = 4_000_000, 1000
"""Pixels that any file may claim to have, and how many more for each of its bytes: pictures are not packed better."""

SCANS = 100
"""Scans of a JPEG at most, each of which goes over all pixels: progressive pictures have about ten."""

BITS, TILE_WIDTH, TILE_LENGTH = 258, 322, 323
"""Numbers of TIFF's tags."""


def decode(name: str, content: bytes, *, size: int | None = None, grey: bool = False) -> NDArray[np.uint8]:
    """Return (height, width, 3) values of a picture, or (height, width, 1) if grey; resized to a square of `size`.

    A photograph is turned as its camera was held (EXIF's orientation). Of sixteen bits the upper eight are taken, in
    grey pictures as in coloured ones; what has no range to be scaled by (floats, 32 bits) is refused.
    """
    with _opened(name, content) as picture:
        ImageOps.exif_transpose(picture, in_place=True)  # without a copy, as the next lines: pictures may be large
        mode = "L" if grey else "RGB"
        plain = _eight_bits(picture)
        plain = plain if plain.mode == mode else plain.convert(mode)
        if size is not None and plain.size != (size, size):
            plain = plain.resize((size, size), Image.Resampling.BILINEAR)
        values = np.asarray(plain)
        return values[:, :, np.newaxis] if grey else values


def is_grey(name: str, content: bytes) -> bool:
    """Say whether a picture has no colours by its kind, without decoding it."""
    with _opened(name, content) as picture:
        return picture.mode in GREY_MODES or _is_deep_pgm(picture)


@contextmanager
def _opened(name: str, content: bytes) -> Iterator[Image.Image]:
    """Open a picture if it is one that may be decoded; say nothing of odd notes beside the pixels."""
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
        raise UserError(f"{name}: no picture, or cut off ({len(content):,} bytes): {brief(reason)}") from error


def _check_size(picture: Image.Image, length: int) -> None:
    """Refuse what would fill the memory, before a pixel is decoded."""
    sizes = [(picture.width, picture.height)]
    if picture.format == "TIFF":  # whose tiles are decoded whole, even where they reach beyond the picture
        tags = picture.tag_v2  # type: ignore[attr-defined]
        sizes.append((int(tags.get(TILE_WIDTH, 1)), int(tags.get(TILE_LENGTH, 1))))
    for width, height in sizes:
        if width * height > min(PIXELS, SMALL + PACKED * length):
            raise ValueError(f"refused, for it claims to have {width:,} × {height:,} pixels")


def _check_kind(picture: Image.Image, content: bytes) -> None:
    """Refuse what cannot be turned into bytes, or not in reasonable time."""
    if picture.mode not in GREY_MODES + COLOUR_MODES and not _is_deep_pgm(picture):
        raise ValueError(f"its pixels are of the kind {picture.mode}: convert it to 8 bits a channel")
    if picture.mode.startswith("I;16") and picture.format == "TIFF":
        bits = picture.tag_v2.get(BITS, (16,))  # type: ignore[attr-defined]
        if tuple(bits) != (16,):
            raise ValueError(f"its pixels have {bits[0]} bits: convert it to 8 bits a channel")
    if picture.format in ("JPEG", "MPO") and content.count(b"\xff\xda") > SCANS:
        raise ValueError(f"refused, for it has more than {SCANS} scans")


def _is_deep_pgm(picture: Image.Image) -> bool:
    """Say whether it is a grey picture of sixteen bits that Pillow opens as one of 32."""
    return picture.format == "PPM" and picture.mode == "I"


def _eight_bits(picture: Image.Image) -> Image.Image:
    if picture.mode.startswith("I;16") or picture.mode == "I":
        return Image.fromarray((np.asarray(picture) >> 8).astype(np.uint8))
    return picture
