"""What is said of a stranger's value can be shown and written, whatever the value is."""

import random
from typing import Any

import pytest
import torch

from feddecorr.core.checks import NAME, Check, ListOf, MappingOf, OneOf, Real, Text, Whole, is_plain, printable, shown
from feddecorr.errors import UserError


def drawn(chance: random.Random) -> str:
    """Return text of all kinds of characters, halves and controls among them."""
    kinds = ["abc def", "\x00\x1b\n\t", "\ud800\udfff", "é漢…", "\u202e\u200b\xa0"]
    return "".join(chance.choice(chance.choice(kinds)) for _ in range(chance.choice([0, 1, 5, 50, 500, 5000])))


@pytest.mark.parametrize("seed", range(50))
def test_any_text_becomes_one_short_line(seed: int) -> None:
    """It stays as it is where it is one already, and what was made of it is one."""
    text = drawn(random.Random(seed))
    line = printable(text, 100)
    assert line.isprintable()
    assert len(line) <= 100
    assert line.encode().decode() == line
    assert printable(line, 100) == line
    assert printable("a fair line", 100) == "a fair line"
    assert (line.endswith("…")) >= (len(text.split()) > 100)


def test_any_value_is_shown_in_a_few_characters() -> None:
    for value in (10**5000, "a" * 10**6, [1] * 10**6, {1: 2}, object(), None, 1e999, torch.ones(9), b"x", "\ud800"):
        assert len(shown(value)) < 120
        assert shown(value).isprintable()


@pytest.mark.parametrize(
    ("check", "right", "wrong"),
    [
        (Whole(1, 9), [1, 9], [0, 10, 1.0, True, "1", None, 10**400]),
        (Real(-1, 1), [-1, 0.5, 1], [1.1, float("nan"), float("inf"), True, "1", 10**400, 1j]),
        (Text(3), ["", "abc"], ["abcd", "\n", "\ud800", b"a", None]),
        (NAME, ["a b"], ["", "a" * 101]),
        (OneOf({"a", "b"}), ["a"], ["c", 1, ["a"]]),
        (ListOf(Whole(0, 1), 2, 1), [[0], (0, 1)], [[], [0, 1, 1], [2], "01", {0: 1}]),
        (MappingOf(NAME, Real(), 1), [{}, {"a": 1.0}], [{"a": 1, "b": 1}, {"": 1}, {"a": "1"}, {1: 1}, [1], None]),
    ],
)
def test_a_check_takes_what_it_says_and_refuses_all_else(check: Check, right: list[Any], wrong: list[Any]) -> None:
    for value in right:
        check(value, "it")
    for value in wrong:
        with pytest.raises(UserError, match=r"^it.*, not ") as caught:
            check(value, "it")
        assert str(caught.value).isprintable()


def test_plain_tensors_are_those_with_numbers_in_this_memory() -> None:
    assert is_plain(torch.ones(2))
    assert is_plain(torch.nn.Parameter(torch.ones(2)))
    assert not any(map(is_plain, [torch.ones(2).to_sparse(), torch.ones(2, device="meta"), [1.0], None]))
