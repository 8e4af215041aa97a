import io
import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from feddecorr.data.formats.pictures import PIXELS, decode
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
    """Whatever others have told Pillow of its own limit."""
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", None)
    with pytest.raises(UserError, match="claims to have"):
        decode("a.png", claiming(*size), size=8)


def test_a_plain_picture_is_packed_well_and_still_read() -> None:
    stream = io.BytesIO()
    Image.new("RGB", (2500, 2000), (9, 8, 7)).save(stream, "PNG")
    assert len(stream.getvalue()) * 200 < 2500 * 2000
    found = decode("a.png", stream.getvalue(), size=2)
    np.testing.assert_array_equal(found, np.broadcast_to(np.array([9, 8, 7]), (2, 2, 3)))
