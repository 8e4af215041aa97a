import pytest
import torch
from small import simulate

from feddecorr.training import shards
from feddecorr.training.shards import Visits, batch_sizes


@pytest.mark.parametrize(("count", "sizes"), [(10, [4, 4, 2]), (9, [4, 5]), (8, [4, 4]), (1, [1]), (5, [5])])
def test_no_batch_of_one_unless_it_is_all_there_is(count: int, sizes: list[int]) -> None:
    assert list(batch_sizes(count, 4)) == sizes


@pytest.mark.parametrize("words", ["data.size=8", "data.size=5", "data.augment=crop"])
def test_how_many_batches_are_made_at_once_changes_no_bit(words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    simulation = simulate(words, "training.batch=7")
    visits = Visits(simulation.task, 1, simulation.shards[0])
    at_once = list(visits.batches())
    monkeypatch.setattr(shards, "AT_ONCE", 1)
    one_by_one = list(visits.batches())
    assert [len(y) for _, y, _ in at_once] == [size for sizes in visits.sizes for size in sizes]
    for (x, y, _), (expected, labels, _) in zip(at_once, one_by_one, strict=True):
        assert torch.equal(x, expected)
        assert torch.equal(y, labels)


def test_images_that_come_as_they_are_come_with_their_places() -> None:
    simulation = simulate()
    shard = simulation.shards[0]
    for x, y, places in Visits(simulation.task, 1, shard).batches():
        assert places is not None
        assert torch.equal(x, simulation.task.normalize(shard.images.pixels[places.host]))
        assert torch.equal(y, shard.images.labels[places.host])
    changed = simulate("data.augment=flip")
    assert all(places is None for _, _, places in Visits(changed.task, 1, changed.shards[0]).batches())


def test_an_epoch_takes_every_image_once_in_an_order_of_its_own() -> None:
    simulation = simulate()
    visits = Visits(simulation.task, 1, simulation.shards[0])
    first, second = visits.order(0).tolist(), visits.order(1).tolist()
    assert sorted(first) == sorted(second) == list(range(len(visits.shard)))
    assert first != second
    assert Visits(simulation.task, 2, simulation.shards[0]).order(0).tolist() != first
