"""Partitioners of flwr-datasets, and the Dirichlet split of which one is an independent implementation."""

from __future__ import annotations

import sys
import warnings
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from small import simulate

from feddecorr.config.overrides import read_overrides
from feddecorr.errors import UserError
from feddecorr.partition.external import FlowerPartitioner
from feddecorr.partition.heterogeneity import Heterogeneity, count_labels
from feddecorr.partition.skew import Dirichlet

Dataset = import_module("datasets").Dataset  # neither package has types
DirichletPartitioner = import_module("flwr_datasets.partitioner").DirichletPartitioner

LABELS: NDArray[np.int64] = np.arange(200) % 5
EQUAL: NDArray[np.int64] = np.arange(500) % 5


def split(partitioner: str, *, clients: int = 5, seed: int = 0, **options: Any) -> NDArray[np.int64]:
    kind = FlowerPartitioner(partitioner=partitioner, options=options, minimum=1)
    return count_labels(kind.split(LABELS, clients=clients, seed=seed), LABELS, 5)


def test_its_own_dirichlet_split_is_what_the_adapter_gives() -> None:
    """The adapter changes nothing about which examples go where."""
    data = Dataset.from_dict({"label": LABELS, "index": np.arange(len(LABELS))})
    theirs = DirichletPartitioner(num_partitions=5, partition_by="label", alpha=0.5, min_partition_size=1, seed=7)
    theirs.dataset = data
    parts = FlowerPartitioner(options={"alpha": 0.5, "seed": 7}, minimum=1).split(LABELS, clients=5, seed=0)
    for client, part in enumerate(parts):
        assert part.tolist() == sorted(theirs.load_partition(client)["index"])


def test_the_run_s_seed_seeds_the_partitioner() -> None:
    """The same seed gives the same split, another one another."""
    first, second, other = (split("DirichletPartitioner", alpha=0.5, seed=seed) for seed in (1, 1, 2))
    assert np.array_equal(first, second)
    assert not np.array_equal(first, other)


def test_partitioners_without_a_seed_or_labels_work() -> None:
    """Each is given what it has parameters for."""
    assert split("IidPartitioner").sum(1).tolist() == [40] * 5
    assert split("NaturalIdPartitioner").tolist() == (40 * np.eye(5, dtype=int)).tolist()
    assert split("SizePartitioner", clients=2, partition_sizes=[150, 50]).sum(1).tolist() == [150, 50]


def test_shards_by_label_work() -> None:
    """A partitioner that sorts by label gives every client few classes."""
    assert ((split("ShardPartitioner", num_shards_per_partition=2, seed=1) > 0).sum(1) <= 2).all()


def test_functions_are_given_by_name() -> None:
    """A partitioner that wants a function takes package.module:name."""
    sizes = split("IdToSizeFncPartitioner", clients=3, partition_id_to_size_fn="numpy:square").sum(1)
    assert sizes.tolist() == split("SquarePartitioner", clients=3).sum(1).tolist()


def test_words_choose_a_partitioner() -> None:
    """`partition=flower` with options is an experiment like any other."""
    words = ["partition=flower", "partition.partitioner=PathologicalPartitioner", "partition.minimum=1"]
    options = ["partition.options.num_classes_per_partition=2", "partition.options.class_assignment_mode=deterministic"]
    simulation = simulate(*words, *options)
    counts = count_labels(simulation.shards.parts, simulation.dataset.train.labels.numpy(), 4)
    assert ((counts > 0).sum(1) == 2).all()
    assert read_overrides(options)["partition"]["options"]["num_classes_per_partition"] == 2


@pytest.mark.parametrize(
    ("partitioner", "options", "message"),
    [
        ("DirichletPartitionr", {}, "did you mean 'DirichletPartitioner'"),
        ("DirichletPartitioner", {}, r"missing 1 required .*'alpha'; partition\.options\.NAME=VALUE"),
        ("DirichletPartitioner", {"alpha": -1}, "strictly greater than zero"),
        ("NaturalIdPartitioner", {"partition_by": "index"}, "is for 200 clients: set clients=200"),
        ("SizePartitioner", {"partition_sizes": [30] * 5}, "leaves out 50 examples"),
        ("VerticalEvenPartitioner", {}, "splits columns"),
    ],
)
@pytest.mark.filterwarnings("ignore:The sum of partition sizes")
def test_what_cannot_be_is_refused(partitioner: str, options: dict[str, Any], message: str) -> None:
    """The message names the partitioner and what would be right."""
    with pytest.raises(UserError, match=message):
        split(partitioner, **options)


def test_without_flwr_datasets_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """The package is an extra."""
    monkeypatch.setitem(sys.modules, "flwr_datasets.partitioner", None)
    with pytest.raises(UserError, match=r"pip install 'feddecorr\[flower-datasets\]'"):
        split("IidPartitioner")


def describe(counts: NDArray[np.int64]) -> list[float]:
    """Return numbers in which splits differ: sizes, zeros, entropy, and single cells early and late in the draw."""
    found = Heterogeneity.of(counts)
    sizes = found.sizes
    return [sizes.max(), sizes.min(), sizes[-1], found.classes.sum(), found.entropy.mean(), counts[0, 0], counts[1, -1]]


def ours(kind: Dirichlet, seeds: int) -> NDArray[np.float64]:
    splits = (kind.split(EQUAL, clients=5, seed=seed) for seed in range(seeds))
    return np.array([describe(count_labels(parts, EQUAL, 5)) for parts in splits])


def theirs(alpha: float, seeds: int) -> NDArray[np.float64]:
    data = Dataset.from_dict({"label": EQUAL})
    found = []
    for seed in range(seeds):
        partitioner = DirichletPartitioner(5, "label", alpha, min_partition_size=1, self_balancing=True, seed=seed)
        partitioner.dataset = data
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # says each time that it draws again
            labels = [np.array(partitioner.load_partition(client)["label"]) for client in range(5)]
        found.append(describe(np.stack([np.bincount(held, minlength=5) for held in labels])))
    return np.array(found)


def difference(one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    """Return the largest statistic of Kolmogorov and Smirnov over the columns, in units of its standard scale.

    For samples of one distribution it exceeds 1.95 in one of a thousand cases (Smirnov, 1948).
    """
    found = []
    for left, right in zip(one.T, other.T, strict=True):
        values = np.union1d(left, right)
        below = [np.searchsorted(np.sort(sample), values, side="right") / len(sample) for sample in (left, right)]
        found.append(np.abs(below[0] - below[1]).max())
    return float(max(found) * np.sqrt(len(one) * len(other) / (len(one) + len(other))))


@pytest.mark.parametrize("alpha", [0.1, 0.5])
def test_the_balanced_split_is_distributed_as_theirs(alpha: float) -> None:
    """Balanced label counts are distributed as by DirichletPartitioner(self_balancing=True), others are not.

    Classes are as large as a client's equal share, where it matters what counts as full.
    """
    seeds = 120
    reference = theirs(alpha, seeds)
    assert difference(ours(Dirichlet(alpha=alpha, minimum=1), seeds), reference) < 1.95
    assert difference(ours(Dirichlet(alpha=alpha, minimum=1, balance=False), seeds), reference) > 3
