import numpy as np
import pytest

from feddecorr.core.limits import ALWAYS, CLASSES, PACKED, Allowance, brief, check_labels
from feddecorr.errors import UserError


@pytest.mark.parametrize("length", [0, 1, ALWAYS // PACKED, ALWAYS, 10 * ALWAYS])
def test_pieces_together_take_no_more_than_the_whole(length: int) -> None:
    """Small files may unpack to the same, large ones to a multiple of their size."""
    allowance = Allowance(length)
    assert allowance.left == max(ALWAYS, PACKED * length)
    for _ in range(4):
        allowance.take(allowance.whole // 4)
    with pytest.raises(UserError, match=f"refused, for it unpacks to more than {allowance.whole:,} bytes"):
        allowance.take(4)


@pytest.mark.parametrize(("wrong", "said"), [(-100, "-100"), (CLASSES, f"{CLASSES:,}"), (2**63, f"{2**63:,}")])
def test_a_label_that_is_no_class_is_named_with_its_row(wrong: int, said: str) -> None:
    labels = np.array([0, CLASSES - 1, wrong], dtype=object)
    with pytest.raises(UserError, match=f"row 3: the label is {said}, expected 0 to {CLASSES - 1:,}"):
        check_labels(labels)
    check_labels(labels[:2])


def test_a_message_repeats_no_more_than_a_line_of_a_stranger() -> None:
    assert brief("two\n words") == "two words"
    assert len(brief("x" * 10**6)) < 300
    assert brief(1 << 10**6) == "a whole number of 1,000,001 bits"
    assert brief([[1]]) == "list"
