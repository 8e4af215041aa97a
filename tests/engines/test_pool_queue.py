from collections.abc import Sequence

import pytest

from feddecorr.engines.pool import MAX_CRASHES, MAX_WEIGHTS, MAX_WORK, Group, GroupQueue


def queue_of(groups: Sequence[Group], *, images: int = 1, weights: int = 1) -> GroupQueue:
    return GroupQueue(groups, images=lambda _client: images, weights=weights)


def all_messages(queue: GroupQueue, workers: int) -> list[list[Group]]:
    messages = []
    while len(queue):
        messages.append(queue.take(workers))
    return messages


GROUPS: list[Group] = [(client,) for client in range(50)]


@pytest.mark.parametrize("workers", [1, 2, 3, 100])
def test_everybody_goes_out_once_in_order(workers: int) -> None:
    messages = all_messages(queue_of(GROUPS), workers)
    assert [group for message in messages for group in message] == GROUPS


def test_tiny_clients_go_out_in_ever_smaller_batches() -> None:
    """So the last ones go to whoever is free first."""
    sizes = [len(message) for message in all_messages(queue_of(GROUPS), 2)]
    assert sizes == sorted(sizes, reverse=True)
    assert (sizes[0], sizes[-1]) == (12, 1)


@pytest.mark.parametrize(("images", "weights"), [(1 + MAX_WORK // 100, 100), (1, 1 + MAX_WEIGHTS)])
def test_clients_with_much_work_or_large_models_go_one_by_one(images: int, weights: int) -> None:
    messages = all_messages(queue_of(GROUPS, images=images, weights=weights), 2)
    assert [len(message) for message in messages] == [1] * 50


def test_after_a_crash_the_culprit_is_found() -> None:
    queue = queue_of(GROUPS)
    message = queue.take(2)
    assert len(message) > 1
    assert queue.count_crash(message) == 0
    queue.put_back(message)
    for group in message[:2]:
        assert queue.take(2) == [group]
    for crashes in range(1, MAX_CRASHES + 1):
        assert queue.count_crash([message[1]]) == crashes
    queue.put_back([message[1]])
    queue.remove(message[1])
    assert [group for left in all_messages(queue, 2) for group in left] == GROUPS[2:]
