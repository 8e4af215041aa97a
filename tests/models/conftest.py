from collections.abc import Iterator

import pytest

from feddecorr.core.randomness import threads


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Compute with one thread: tests run side by side."""
    with threads(1):
        yield
