"""Laws of every kind of split, and of each."""

from __future__ import annotations

import hashlib
import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from feddecorr.core.randomness import frozen_stream
from feddecorr.errors import UserError
from feddecorr.partition.heterogeneity import count_labels
from feddecorr.partition.skew import ClassesPerClient, Dirichlet, EqualShares, Homogeneous, Quantity, cut, draw_logs
from feddecorr.partition.split import Partition, Parts

Labels = NDArray[np.int64]

BALANCED: Labels = np.arange(600) % 6
SKEWED: Labels = np.repeat(np.arange(5), [400, 200, 100, 60, 40])

KINDS: list[Partition] = [
    Dirichlet(alpha=0.1, minimum=5),
    Dirichlet(alpha=0.1, minimum=5, balance=False),
    Dirichlet(alpha=0.1, minimum=5, capacity_rule="at"),
    Dirichlet(alpha=math.inf),
    Homogeneous(),
    ClassesPerClient(per_client=2),
    EqualShares(alpha=0.1),
    Quantity(alpha=0.3),
]


def digest(parts: Parts) -> str:
    return hashlib.sha256(b"|".join(part.astype("<i8").tobytes() for part in parts)).hexdigest()[:16]


@pytest.mark.parametrize("labels", [BALANCED, SKEWED], ids=["balanced", "skewed"])
@pytest.mark.parametrize("kind", KINDS, ids=repr)
def test_every_example_goes_to_exactly_one_client(kind: Partition, labels: Labels) -> None:
    """Splits are disjoint and complete, every client holds the minimum, and indices are sorted."""
    parts = kind.split(labels, clients=7, seed=3)
    assert len(parts) == 7
    assert np.array_equal(np.sort(np.concatenate(parts)), np.arange(len(labels)))
    assert min(map(len, parts)) >= kind.minimum
    assert all((np.diff(part) > 0).all() for part in parts)


@pytest.mark.parametrize("kind", KINDS, ids=repr)
def test_the_same_seed_gives_the_same_split(kind: Partition) -> None:
    """A split depends on the seed and on nothing else that is random."""
    first, second, other = (kind.split(BALANCED, clients=4, seed=seed) for seed in (1, 1, 2))
    assert digest(first) == digest(second) != digest(other)


@pytest.mark.parametrize(
    ("kind", "wanted"),
    [
        (Dirichlet(alpha=0.1, minimum=5), "110746e934c9c790"),
        (Dirichlet(alpha=0.1, minimum=5, balance=False), "8ba8c6d3aee279dd"),
        (Homogeneous(), "80f4d3f9696912a0"),
        (ClassesPerClient(per_client=2), "ff08a80cebbbe65a"),
        (EqualShares(alpha=0.1), "4914f27c3f855a46"),
        (Quantity(alpha=0.3), "c50824d9202047ed"),
    ],
    ids=repr,
)
def test_the_split_is_the_same_on_every_platform(kind: Partition, wanted: str) -> None:
    """These digests were recorded once; no version of NumPy and no machine may change them."""
    assert digest(kind.split(BALANCED, clients=4, seed=0)) == wanted


@pytest.mark.parametrize("kind", KINDS, ids=repr)
def test_too_many_clients_are_refused(kind: Partition) -> None:
    """Where the minimum cannot be met by any split, the message says the numbers."""
    with pytest.raises(UserError, match=f"200 clients with at least {kind.minimum} examples each need"):
        kind.split(BALANCED, clients=200, seed=0)


@settings(deadline=None, max_examples=50, derandomize=True)
@given(
    sizes=st.lists(st.integers(1, 60), min_size=1, max_size=8),
    clients=st.integers(1, 12),
    per_client=st.integers(1, 8),
    seed=st.integers(0, 5),
)
def test_with_c_classes_a_client_holds_exactly_c(sizes: list[int], clients: int, per_client: int, seed: int) -> None:
    """Whatever the sizes of the classes: C classes a client, all dealt out, shards of a class equal up to one."""
    labels = np.repeat(np.arange(len(sizes)), sizes)
    shards = clients * per_client
    possible = per_client <= len(sizes) <= shards <= sum(min(size, clients) for size in sizes)
    kind = ClassesPerClient(per_client=per_client, minimum=1)
    if not possible or clients > len(labels):
        with pytest.raises(UserError):
            kind.split(labels, clients=clients, seed=seed)
        return
    parts = kind.split(labels, clients=clients, seed=seed)
    counts = count_labels(parts, labels, len(sizes))
    assert ((counts > 0).sum(1) == per_client).all()
    assert np.array_equal(counts.sum(0), sizes)
    for column in counts.T:
        held = column[column > 0]
        assert held.max() - held.min() <= 1


def test_shards_are_as_equal_as_can_be() -> None:
    """Larger classes are cut into more shards: shards of 50, 50, 50, 60 and 40 examples are nearest to equal."""
    counts = count_labels(ClassesPerClient(per_client=2).split(SKEWED, clients=8, seed=0), SKEWED, 5)
    assert (counts > 0).sum(0).tolist() == [8, 4, 2, 1, 1]


def test_classes_are_dealt_at_random() -> None:
    """Over seeds, every pair of classes meets at a client, equally often up to chance."""
    meetings = np.zeros((6, 6))
    for seed in range(200):
        held = count_labels(ClassesPerClient(per_client=2).split(BALANCED, clients=6, seed=seed), BALANCED, 6) > 0
        meetings += held.T.astype(int) @ held
    pairs = meetings[np.triu_indices(6, 1)]
    expected = 200 * 6 / 15
    assert pairs.sum() == 200 * 6
    assert np.abs(pairs - expected).max() < 5 * expected**0.5


@pytest.mark.parametrize("alpha", [1e-4, 0.1, 1e6])
def test_equal_shares_are_equal_at_any_alpha(alpha: float) -> None:
    """A tiny alpha gives one class as long as there is some left, a huge one what chance gives."""
    kind = EqualShares(alpha=alpha, minimum=1)
    for labels in (BALANCED, SKEWED):
        sizes = [len(part) for part in kind.split(labels, clients=7, seed=0)]
        assert max(sizes) - min(sizes) <= 1
    held = count_labels(kind.split(BALANCED, clients=20, seed=0), BALANCED, 6)
    assert (held[:3] > 0).sum(1).max() <= 2 if alpha < 1e-3 else True
    if alpha > 1e3:
        assert held.min() > 0 or (held == 0).mean() < 0.05
        assert abs(held[:10].sum(0) - 50).max() < 5 * 25**0.5


def test_equal_shares_draw_each_clients_classes_by_its_own_proportions() -> None:
    """The first client, who chooses among all, holds class k with the mean share 1/K and a Dirichlet's variance."""
    alpha, classes = 0.5, 6
    shares = [
        count_labels(EqualShares(alpha=alpha).split(BALANCED, clients=10, seed=seed), BALANCED, classes)[0] / 60
        for seed in range(300)
    ]
    variance = (1 / classes) * (1 - 1 / classes) / (classes * alpha + 1)
    assert np.mean(shares, 0) == pytest.approx(np.full(classes, 1 / classes), abs=5 * (variance / 300) ** 0.5)
    assert np.var(shares) == pytest.approx(variance, rel=0.15)  # a class of 100 cannot fill a client's draw of more


def test_one_class_for_each_client_is_the_split_by_class() -> None:
    """With as many clients as classes and C = 1, each client holds one whole class."""
    counts = count_labels(ClassesPerClient(per_client=1).split(BALANCED, clients=6, seed=0), BALANCED, 6)
    assert sorted(counts.argmax(1)) == list(range(6))
    assert (counts.max(1) == 100).all()


@pytest.mark.parametrize(("clients", "per_client", "right"), [(2, 2, "from 3 to 6"), (10, 7, "from 1 to 6")])
def test_numbers_of_classes_that_cannot_be_are_refused(clients: int, per_client: int, right: str) -> None:
    """Every class must go somewhere, and no client can hold more classes than there are; the message says which do."""
    with pytest.raises(UserError, match=right):
        ClassesPerClient(per_client=per_client).split(BALANCED, clients=clients, seed=0)


def test_a_shard_below_the_minimum_is_refused() -> None:
    """The minimum is kept by every kind, or the message names the client."""
    with pytest.raises(UserError, match=r"client \d+ would hold 50 examples, fewer than partition.minimum=90"):
        ClassesPerClient(per_client=1, minimum=90).split(
            np.repeat([0, 1, 2, 3], [50, 150, 150, 150]), clients=4, seed=0
        )


@pytest.mark.parametrize("kind", [Homogeneous(), Dirichlet(alpha=math.inf)], ids=repr)
def test_a_homogeneous_client_holds_its_share_of_every_class(kind: Partition) -> None:
    """Up to one example, every client holds the same of each class; infinite alpha means the same."""
    counts = count_labels(kind.split(SKEWED, clients=7, seed=0), SKEWED, 5)
    assert (counts.max(0) - counts.min(0) <= 1).all()
    assert np.ptp(counts.sum(1)) <= 1


def test_sizes_follow_the_dirichlet_distribution() -> None:
    """Over seeds, a client's share of what exceeds the minimum has the mean and variance of a Dirichlet component."""
    alpha, clients, minimum = 0.5, 4, 10
    kind = Quantity(alpha=alpha, minimum=minimum)
    sizes = [[len(part) for part in kind.split(BALANCED, clients=clients, seed=seed)] for seed in range(2000)]
    shares = (np.array(sizes) - minimum) / (len(BALANCED) - clients * minimum)
    mean = 1 / clients
    variance = mean * (1 - mean) / (clients * alpha + 1)
    assert shares.mean(0) == pytest.approx(mean, abs=5 * (variance / 2000) ** 0.5)
    assert shares.var(0) == pytest.approx(variance, rel=0.15)


def test_labels_are_not_skewed_by_quantity() -> None:
    """A client's labels are a random sample of all: over seeds, every class has the same share."""
    counts = sum(
        count_labels(Quantity(alpha=0.5).split(SKEWED, clients=4, seed=seed), SKEWED, 5)[0] for seed in range(300)
    )
    shares = counts / np.sum(counts)
    assert shares == pytest.approx(np.bincount(SKEWED) / len(SKEWED), abs=0.01)


def test_proportions_follow_the_dirichlet_distribution() -> None:
    """Without balance, the share of a class that goes to a client has the moments of a Dirichlet component."""
    stream = frozen_stream(0, "test")
    for alpha in (0.01, 0.3, 5.0):
        logs = draw_logs(alpha, (4000, 5), stream)
        shares = np.exp(logs - logs.max(1, keepdims=True))
        shares /= shares.sum(1, keepdims=True)
        variance = 0.2 * 0.8 / (5 * alpha + 1)
        assert shares.mean(0) == pytest.approx(0.2, abs=5 * (variance / 4000) ** 0.5)
        assert shares.var(0) == pytest.approx(variance, rel=0.15)


def test_a_tiny_alpha_gives_each_class_to_one_client() -> None:
    """Where all shares would underflow, the largest still takes the whole class."""
    for logs in draw_logs(1e-9, (100, 20), frozen_stream(0, "test")):
        assert sorted(cut(500, logs).tolist()) == [0] * 19 + [500]


@given(st.integers(0, 1000), st.lists(st.floats(-50, 0), min_size=1, max_size=20))
@settings(deadline=None, derandomize=True)
def test_a_cut_is_complete_and_near_the_proportions(count: int, logs: list[float]) -> None:
    """The pieces sum to the whole, and each is within one of its exact share."""
    pieces = cut(count, np.array(logs))
    exact = np.exp(logs) / np.exp(logs).sum() * count
    assert pieces.sum() == count
    assert (np.abs(pieces - exact) < 1 + 1e-6).all()


def test_smaller_alpha_is_more_skewed() -> None:
    """The mean number of classes that a client holds grows with alpha."""
    held = []
    for alpha in (0.01, 0.1, 1.0, 10.0):
        kind = Dirichlet(alpha=alpha, minimum=1)
        counts = [count_labels(kind.split(BALANCED, clients=6, seed=seed), BALANCED, 6) for seed in range(20)]
        held.append(float((np.stack(counts) > 0).sum(2).mean()))
    assert all(fewer < more for fewer, more in pairwise(held))


def test_a_full_client_gets_no_class_that_follows() -> None:
    """At, or above, its equal share, a client's count of every later class is zero; so sizes stay within bounds."""
    share = len(BALANCED) / 6
    for full in ("above", "at"):
        at_the_edge = 0
        for seed in range(50):
            kind = Dirichlet(alpha=0.02, minimum=1, capacity_rule=full)
            counts = count_labels(kind.split(BALANCED, clients=6, seed=seed), BALANCED, 6)
            before = np.cumsum(counts, 1) - counts
            assert not counts[before >= share if full == "at" else before > share].any()
            at_the_edge += int(counts[before == share].any())
        assert bool(at_the_edge) == (full == "above")


def test_a_minimum_that_is_never_met_ends_with_a_message() -> None:
    """The number of draws is bounded, and the message says how near the best came and what to change."""
    with pytest.raises(
        UserError, match=r"in 20 draws \(in the best, the smallest client held \d+\): lower partition.minimum"
    ):
        Dirichlet(alpha=0.01, minimum=115, attempts=20).split(BALANCED, clients=5, seed=0)


def test_labels_need_not_be_counted_from_zero() -> None:
    """Classes are what occurs among the labels."""
    parts = ClassesPerClient(per_client=1).split(np.array([7, 3] * 20), clients=2, seed=0)
    assert sorted(len(part) for part in parts) == [20, 20]


def test_a_part_that_is_not_there_is_refused() -> None:
    """Parts are counted from 0, and none from the end."""
    parts = Parts.of([[3, 1], [], [2]])
    assert [part.tolist() for part in parts] == [[3, 1], [], [2]]
    for client in (-1, 3):
        with pytest.raises(ValueError, match="not enough values"):
            parts[client]


class Wrong(Partition):
    """Gives an example to a client that is not there."""

    def assign(self, labels: Labels, clients: int, stream: np.random.RandomState) -> Labels:
        """Count from 1."""
        return stream.permutation(labels % clients + 1)


def test_a_client_that_is_not_there_gets_nothing() -> None:
    """The error names the partitioner."""
    with pytest.raises(UserError, match=r"Wrong.assign must return a client from 0 to 3 for each of 600 examples"):
        Wrong().split(BALANCED, clients=4, seed=0)
