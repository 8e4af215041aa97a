from pathlib import Path

import torch

from feddecorr.core.client_memory import Memories
from feddecorr.core.states import State


def state(value: float) -> State:
    return {"x": torch.tensor([value])}


def test_a_client_that_never_took_part_remembers_nothing(tmp_path: Path) -> None:
    assert Memories(tmp_path).load(3, before=10) == {}


def test_a_round_begins_with_the_newest_memory_from_before_it(tmp_path: Path) -> None:
    memories = Memories(tmp_path)
    for number in (1, 4, 6):
        memories.save(3, number, state(number))
    assert float(memories.load(3, before=6)["x"]) == 4
    assert float(memories.load(3, before=7)["x"]) == 6
    assert memories.load(3, before=1) == {}
    assert memories.load(2, before=7) == {}


def test_what_was_replaced_is_dropped_once_it_is_settled(tmp_path: Path) -> None:
    memories = Memories(tmp_path)
    for number in (1, 4, 6):
        memories.save(3, number, state(number))
    memories.settle([3], 4)
    assert sorted(path.stem for path in (tmp_path / "3").iterdir()) == ["4", "6"]


def test_a_client_without_news_keeps_what_it_has(tmp_path: Path) -> None:
    memories = Memories(tmp_path)
    memories.save(3, 1, state(1))
    memories.settle([3, 5], 2)
    assert float(memories.load(3, before=9)["x"]) == 1
