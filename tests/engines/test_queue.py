from collections.abc import Sequence

import pytest

from feddecorr.engines.queue import MAX_DEATHS, ROOM, WORK, Group, Waiting


def line(groups: Sequence[Group], *, images: int = 1, weights: int = 1) -> Waiting:
    return Waiting(groups, images=lambda _client: images, weights=weights)


def all_messages(waiting: Waiting, workers: int) -> list[list[Group]]:
    messages = []
    while len(waiting):
        messages.append(waiting.take(workers))
    return messages


GROUPS: list[Group] = [(client,) for client in range(50)]


@pytest.mark.parametrize("workers", [1, 2, 3, 100])
def test_everybody_goes_out_once_in_order(workers: int) -> None:
    messages = all_messages(line(GROUPS), workers)
    assert [group for message in messages for group in message] == GROUPS


def test_tiny_clients_go_out_in_ever_smaller_batches() -> None:
    """So the last ones go to whoever is free first."""
    sizes = [len(message) for message in all_messages(line(GROUPS), 2)]
    assert sizes == sorted(sizes, reverse=True)
    assert (sizes[0], sizes[-1]) == (12, 1)


@pytest.mark.parametrize(("images", "weights"), [(1 + WORK // 100, 100), (1, 1 + ROOM)])
def test_clients_with_much_work_or_large_models_go_one_by_one(images: int, weights: int) -> None:
    messages = all_messages(line(GROUPS, images=images, weights=weights), 2)
    assert [len(message) for message in messages] == [1] * 50


def test_after_a_death_the_culprit_is_found() -> None:
    waiting = line(GROUPS)
    message = waiting.take(2)
    assert len(message) > 1
    assert waiting.blame(message) == 0
    waiting.put_back(message)
    for group in message[:2]:
        assert waiting.take(2) == [group]
    for deaths in range(1, MAX_DEATHS + 1):
        assert waiting.blame([message[1]]) == deaths
    waiting.put_back([message[1]])
    waiting.give_up(message[1])
    assert [group for left in all_messages(waiting, 2) for group in left] == GROUPS[2:]
