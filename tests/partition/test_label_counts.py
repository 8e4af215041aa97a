"""Counts of labels without the zeros."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from feddecorr.partition import Parts
from feddecorr.partition.label_counts import LabelCounts
from feddecorr.partition.split import NOBODY


@settings(deadline=None, derandomize=True)
@given(
    examples=st.lists(st.tuples(st.integers(NOBODY, 6), st.integers(0, 3)), max_size=60),
    shown=st.none() | st.integers(0, 9),
)
def test_the_table_is_what_one_counts_by_hand(examples: list[tuple[int, int]], shown: int | None) -> None:
    """Of all clients or the first ones, also of clients that hold nothing and of examples that nobody holds."""
    holders, labels = (np.array([pair[which] for pair in examples], np.int64) for which in (0, 1))
    parts = Parts.held_by(holders, 7)
    by_hand = [[examples.count((client, label)) for label in range(4)] for client in range(7)]
    found = LabelCounts.of(parts, labels, 4)
    assert found.table(shown).tolist() == by_hand[:shown]
    assert [part.tolist() for part in parts] == [np.flatnonzero(holders == client).tolist() for client in range(7)]


def test_a_million_clients_of_a_thousand_classes_take_no_more_than_their_examples() -> None:
    """The table itself would have a billion cells."""
    clients = 1_000_000
    found = LabelCounts.of(Parts.held_by(np.arange(clients), clients), np.arange(clients) % 1000, 1000)
    assert len(found.count) == clients
    assert found.table(2)[1, 1] == 1
