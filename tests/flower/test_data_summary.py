"""What nodes say of themselves is taken if it can be, and refused with its field if it cannot."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch
from small import small

from feddecorr.core.checks import MOST_CLASSES
from feddecorr.data.dataset import PixelSums
from feddecorr.errors import UserError
from feddecorr.flower.data_summary import DataSummary, federation_of

PIXELS = torch.randint(0, 256, (5, 4, 3, 2), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
FAIR = DataSummary(1, 5, (2, 4, 3), ("cat", "dog"), PixelSums.of(PIXELS), ((1.0, 2.0), (1.0, 2.0)))


def said(**changes: Any) -> bytes:
    """Return the bytes of a data summary with some fields changed."""
    document = json.loads(FAIR.to_bytes())
    for path, value in changes.items():
        *way, last = path.split("__")
        place = document
        for name in way:
            place = place[name]
        place[last] = value
    return json.dumps(document).encode()


def test_what_a_node_says_comes_back() -> None:
    assert DataSummary.from_bytes(FAIR.to_bytes()) == FAIR
    assert DataSummary.from_bytes(said(constants=None)).constants is None


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "a client below zero": ({"client": -1}, "client=-1"),
    "a truth for a client": ({"client": True}, "data summary"),
    "no examples": ({"examples": 0}, "examples=0"),
    "more examples than the roster holds": ({"examples": 2**31}, "examples=2147483648"),
    "examples beyond all bounds": ({"examples": 10**400}, "examples"),
    "an empty picture": ({"shape": [2, 0, 3]}, "shape.1=0"),
    "a picture that nobody has": ({"shape": [2, 1 << 14, 1 << 14]}, "shape"),
    "no class": ({"classes": []}, "classes"),
    "fifty thousand classes": ({"classes": [str(n) for n in range(50_000)]}, "classes"),
    "a class twice": ({"classes": ["cat", "cat"]}, "twice"),
    "a class with a control character": ({"classes": ["\x1b[2J"]}, "classes.0"),
    "half a character": ({"classes": ["\ud800"]}, "data summary"),
    "a class with a long name": ({"classes": ["a" * 1000]}, "classes.0"),
    "another number of pixels": ({"sums__count": 61}, "61"),
    "no pixels": ({"sums__count": 0}, "0"),
    "a channel too few": ({"sums__sums": [100]}, "channels"),
    "sums below zero": ({"sums__sums": [-1, 100]}, "no 60 pixels"),
    "sums that no pixels have": ({"sums__sums": [60 * 256, 100]}, "no 60 pixels"),
    "squares that no pixels have": ({"sums__squares": [10**400, 10**6]}, "no 60 pixels"),
    "less than no variance": ({"sums__sums": [6000, 6000], "sums__squares": [6000, 6000]}, "no 60 pixels"),
    "constants of one channel": ({"constants": [[1.0], [1.0]]}, "constants"),
    "constants that are not finite": ({"constants": [[1e300, 1.0], [1.0, 1.0]]}, "constants.0.0"),
    "no spread": ({"constants": [[1.0, 1.0], [0.0, 1.0]]}, "constants.1.0"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_cannot_be_is_refused_by_its_field(name: str) -> None:
    changes, reason = WRONG[name]
    with pytest.raises(UserError, match=reason) as caught:
        DataSummary.from_bytes(said(**changes))
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("content", [b"", b"[", b"{}", b"[" * 100_000, b"\xff", b'"\\ud800"', b"1e999", b"null"])
def test_other_bytes_are_refused(content: bytes) -> None:
    with pytest.raises(UserError, match="not a data summary"):
        DataSummary.from_bytes(content)


def test_clients_cannot_widen_the_model_without_end_by_turns() -> None:
    """Each of them names no more classes than it may, and all together far more."""
    half = MOST_CLASSES // 2 + 1
    lists = [tuple(f"{client}-{n}" for n in range(half)) for client in range(2)]
    reported = [DataSummary(client, 5, FAIR.shape, names, FAIR.sums) for client, names in enumerate(lists)]
    with pytest.raises(UserError, match=f"{2 * half} classes"):
        federation_of(small("clients=2").experiment, dict(enumerate(reported)), None)


def test_sums_of_any_pixels_are_possible_and_add_up() -> None:
    for fill in (0, 1, 255):
        assert PixelSums.of(torch.full((2, 2, 2, 3), fill, dtype=torch.uint8)).count == 8
    assert (FAIR.sums + FAIR.sums).mean == FAIR.sums.mean
