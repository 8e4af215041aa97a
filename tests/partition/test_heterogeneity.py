"""Numbers that say how much clients differ."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import tensor
from torch.distributions import Categorical

from feddecorr.partition.heterogeneity import Heterogeneity, LabelCounts, count_labels, gini
from feddecorr.partition.skew import Dirichlet
from feddecorr.partition.split import UNASSIGNED, Parts


def test_labels_are_counted() -> None:
    """Each row is a client, each column a class, also one that nobody holds."""
    labels = np.array([0, 0, 1, 2, 2, 2])
    assert count_labels(Parts.of([[0, 2], [1, 3, 4, 5]]), labels, 4).tolist() == [[1, 1, 0, 0], [1, 0, 3, 0]]


def test_equal_clients_do_not_differ() -> None:
    """With the same labels everywhere, distances and Gini are 0 and every class counts fully."""
    found = Heterogeneity.of(np.full((5, 8), 3)).summary()
    assert found["mean_distance"] == found["gini_of_sizes"] == 0
    assert found["mean_effective_classes"] == pytest.approx(8)
    assert found["mean_label_entropy"] == pytest.approx(math.log(8))


def test_clients_of_one_class_each_differ_as_much_as_can_be() -> None:
    """With K clients of one class each, the effective number is 1 and the distance 1 − 1/K."""
    found = Heterogeneity.of(np.eye(4, dtype=np.int64) * 7).summary()
    assert found["mean_effective_classes"] == found["mean_classes"] == 1
    assert found["mean_label_entropy"] == 0
    assert found["mean_distance"] == pytest.approx(1 - 1 / 4)


def test_entropy_is_that_of_pytorch() -> None:
    """The entropy of each client's labels, by an independent implementation."""
    labels = np.arange(500) % 9
    counts = count_labels(Dirichlet(alpha=0.2).split(labels, clients=6, seed=0), labels, 9)
    theirs = Categorical(probs=tensor(counts).double()).entropy()
    assert Heterogeneity.of(counts).entropy == pytest.approx(theirs.numpy())


@given(st.lists(st.integers(1, 1000), min_size=1, max_size=30))
def test_gini_is_half_the_relative_mean_difference(sizes: list[int]) -> None:
    """The coefficient equals its definition by pairs, and scaling all sizes leaves it."""
    array = np.array(sizes)
    pairs = np.abs(array[:, None] - array[None, :]).mean() / (2 * array.mean())
    assert gini(array) == pytest.approx(float(pairs), abs=1e-12)
    assert gini(3 * array) == pytest.approx(gini(array), abs=1e-12)


def test_gini_of_one_holder_is_nearly_one() -> None:
    """When one of n holds nearly all, it is nearly 1 − 1/n."""
    assert gini(np.array([1, 1, 1, 10**9])) == pytest.approx(0.75, abs=1e-6)


@settings(deadline=None, derandomize=True)
@given(
    examples=st.lists(st.tuples(st.integers(UNASSIGNED, 6), st.integers(0, 3)), max_size=60),
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
