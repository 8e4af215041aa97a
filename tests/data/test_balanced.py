import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from feddecorr.core.randomness import frozen_stream
from feddecorr.data.dataset import balanced_part


@settings(derandomize=True, deadline=None)
@given(st.lists(st.integers(0, 4), min_size=1, max_size=80), st.data())
def test_a_part_is_as_balanced_as_the_classes_allow(labels: list[int], data: st.DataObject) -> None:
    """No class gives two more than another that has some left."""
    array = np.array(labels)
    count = data.draw(st.integers(1, len(labels)))
    chosen = balanced_part(array, count, frozen_stream(0, "test"))
    assert len(set(chosen.tolist())) == count
    assert chosen.tolist() == sorted(chosen.tolist())
    sizes, taken = (np.bincount(some, minlength=5) for some in (array, array[chosen]))
    assert taken.max() <= taken[taken < sizes].min(initial=len(labels)) + 1


def test_the_seed_decides_and_a_larger_part_contains_a_smaller() -> None:
    labels = np.arange(100) % 5
    small, again, large = (set(balanced_part(labels, n, frozen_stream(3, "a")).tolist()) for n in (20, 20, 55))
    assert small == again
    assert small < large
    assert small != set(balanced_part(labels, 20, frozen_stream(4, "a")).tolist())


def test_the_draw_is_the_same_on_every_platform_and_for_all_time() -> None:
    """These indices were drawn once; they must never change."""
    assert balanced_part(np.arange(30) % 3, 7, frozen_stream(0, "part")).tolist() == [0, 7, 10, 11, 17, 26, 27]
