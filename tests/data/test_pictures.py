import io
import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from feddecorr.data.pictures import PIXELS, decode, is_grey
from feddecorr.errors import UserError


def claiming(width: int, height: int) -> bytes:
    """Return a grey PNG file that says how large it is, and has no pixel."""
    chunks = (b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0), b"IDAT", b"IEND")
    parts = (struct.pack(">I", len(chunk) - 4) + chunk + struct.pack(">I", zlib.crc32(chunk)) for chunk in chunks)
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


@pytest.mark.parametrize("size", [(9000, 9000), (PIXELS, 2)])
def test_a_size_is_believed_only_of_a_file_that_can_hold_it(
    size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever others have set Pillow's own limit to."""
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", None)
    with pytest.raises(UserError, match="claims to have"):
        decode("a.png", claiming(*size), size=8)


def test_a_plain_picture_is_packed_well_and_still_read() -> None:
    stream = io.BytesIO()
    Image.new("RGB", (2500, 2000), (9, 8, 7)).save(stream, "PNG")
    assert len(stream.getvalue()) * 200 < 2500 * 2000
    found = decode("a.png", stream.getvalue(), size=2)
    np.testing.assert_array_equal(found, np.broadcast_to(np.array([9, 8, 7]), (2, 2, 3)))


DEEP = np.linspace(0, 65535, 64).astype(np.uint16).reshape(8, 8)


def written(picture: Image.Image, kind: str) -> bytes:
    stream = io.BytesIO()
    picture.save(stream, kind)
    return stream.getvalue()


@pytest.mark.parametrize("kind", ["PNG", "TIFF", "PGM"])
def test_of_sixteen_bits_of_grey_the_upper_eight_are_taken(kind: str) -> None:
    """As Pillow does of colours: the same picture is the same, whether its channels are one or three."""
    plain = b"P5 8 8 65535\n" + DEEP.astype(">u2").tobytes()
    content = plain if kind == "PGM" else written(Image.fromarray(DEEP), kind)
    assert is_grey("a", content)
    np.testing.assert_array_equal(decode("a", content, grey=True)[:, :, 0], DEEP >> 8)
    np.testing.assert_array_equal(decode("a", content), np.repeat((DEEP >> 8)[:, :, None], 3, axis=2))


def test_colours_of_sixteen_bits_give_their_upper_eight() -> None:
    rows = b"".join(b"\0" + np.repeat(row, 3).astype(">u2").tobytes() for row in DEEP)
    chunks = (b"IHDR" + struct.pack(">IIBBBBB", 8, 8, 16, 2, 0, 0, 0), b"IDAT" + zlib.compress(rows), b"IEND")
    parts = (struct.pack(">I", len(chunk) - 4) + chunk + struct.pack(">I", zlib.crc32(chunk)) for chunk in chunks)
    found = decode("a.png", b"\x89PNG\r\n\x1a\n" + b"".join(parts))
    np.testing.assert_array_equal(found, np.repeat((DEEP >> 8)[:, :, None], 3, axis=2))


@pytest.mark.parametrize(
    "picture",
    [Image.fromarray(DEEP.astype(np.float32)), Image.fromarray(DEEP.astype(np.int32))],
    ids=["floats", "32 bits"],
)
def test_pixels_without_a_range_are_refused(picture: Image.Image) -> None:
    with pytest.raises(UserError, match=r"a\.tif: not a picture.* its pixels have the mode [FI]: convert it to 8 bits"):
        decode("a.tif", written(picture, "TIFF"))


@pytest.mark.parametrize("kind", ["EPS", "ICO", "PCX", "SGI", "TGA", "PDF", "JPEG2000"])
def test_other_formats_are_not_opened(kind: str) -> None:
    """Whatever their names say: some of them start programs."""
    with pytest.raises(UserError, match=r"3\.png: not a picture, .* none of BMP, GIF, JPEG, PNG, PPM, TIFF, WEBP"):
        decode("3.png", written(Image.new("RGB", (8, 8)), kind))


@pytest.mark.parametrize("kind", ["BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP"])
def test_known_formats_are_read_as_pillow_reads_them(kind: str) -> None:
    stream = np.random.default_rng(0)
    content = written(Image.fromarray(stream.integers(0, 256, (8, 8, 3), dtype=np.uint8)), kind)
    np.testing.assert_array_equal(decode("a", content), np.asarray(Image.open(io.BytesIO(content)).convert("RGB")))
