from typing import get_args

import numpy as np
import pytest
import torch
from small import simulate
from torch import Tensor

from feddecorr.config.experiment import Experiment
from feddecorr.core.messages import Update
from feddecorr.core.states import STATISTICS, Mean, PooledMean, State
from feddecorr.methods import mean_weights
from feddecorr.server.rounds import TermMeans, sample_clients


def update(examples: int, value: float, buffer: float = 0.0, batches: int = 0) -> Update:
    weights = {"w": torch.tensor([value])}
    buffers = {"mean": torch.tensor([buffer]), "batches": torch.tensor(batches)}
    return Update(1, 0, examples, 1.0, weights, buffers, {}, {"loss": value})


def test_the_mean_of_one_is_that_one_bit_for_bit() -> None:
    state = {"w": torch.randn(1000, generator=torch.Generator().manual_seed(0))}
    mean = Mean()
    mean.add(state, 7)
    assert torch.equal(mean.value["w"], state["w"])
    assert mean.value["w"] is not state["w"]


def test_the_mean_of_equals_is_their_value_bit_for_bit() -> None:
    state = {"w": torch.randn(1000, generator=torch.Generator().manual_seed(0))}
    mean = Mean()
    for weight in (3, 5, 11):
        mean.add(state, weight)
    assert torch.equal(mean.value["w"], state["w"])


def test_weights_are_averaged_by_examples() -> None:
    mean = mean_weights(update(examples, value) for examples, value in [(1, 1.0), (2, 4.0), (5, -2.0)])
    torch.testing.assert_close(mean["w"], torch.tensor([(1 + 8 - 10) / 8]))


def test_statistics_are_averaged_and_counters_take_the_largest() -> None:
    mean = Mean()
    for each in (update(1, 0.0, buffer=1.0, batches=3), update(3, 0.0, buffer=5.0, batches=2)):
        mean.add(each.buffers, each.examples)
    torch.testing.assert_close(mean.value["mean"], torch.tensor([4.0]))
    assert int(mean.value["batches"]) == 3
    assert mean.value["batches"].dtype == torch.int64


def statistics(samples: Tensor) -> State:
    return {
        "1.running_mean": samples.mean(0),
        "1.running_var": samples.var(0, correction=0),
        "1.num_batches_tracked": torch.tensor(len(samples)),
        "other": samples[0],
    }


@pytest.mark.parametrize("order", [[0, 1, 2, 3], [2, 0, 3, 1]])
def test_pooled_statistics_are_those_of_all_samples_together(order: list[int]) -> None:
    """Whatever the order in which clients come, and however far apart they lie; all else is averaged as always."""
    stream = torch.Generator().manual_seed(0)
    clients = [10 * k + torch.randn(n, 5, generator=stream).double() for k, n in enumerate((3, 50, 7, 20))]
    pooled, plain = PooledMean(), Mean()
    for client in order:
        pooled.add(statistics(clients[client]), len(clients[client]))
        plain.add(statistics(clients[client]), len(clients[client]))
    expected = statistics(torch.cat(clients))
    torch.testing.assert_close(pooled.value["1.running_mean"], expected["1.running_mean"])
    torch.testing.assert_close(pooled.value["1.running_var"], expected["1.running_var"])
    assert (plain.value["1.running_var"] < 0.1 * expected["1.running_var"]).all()  # what averaging leaves out
    assert torch.equal(pooled.value["other"], plain.value["other"])
    assert int(pooled.value["1.num_batches_tracked"]) == 50


def test_means_without_variances_are_averaged() -> None:
    """Whatever module of a user has such a name."""
    pooled = PooledMean()
    for value in (1.0, 3.0):
        pooled.add({"own.running_mean": torch.tensor([value])}, 1)
    assert pooled.value["own.running_mean"].tolist() == [2.0]


def test_pooling_equals_changes_no_bit() -> None:
    """Neither of one client alone nor of clients that agree."""
    state = statistics(torch.randn(9, 1000, generator=torch.Generator().manual_seed(0)))
    pooled = PooledMean()
    for weight in (3, 5, 11):
        pooled.add(state, weight)
        assert all(torch.equal(pooled.value[name], state[name]) for name in state)


def test_every_way_of_treating_statistics_has_its_mean() -> None:
    assert set(STATISTICS) == set(get_args(Experiment.model_fields["batchnorm"].annotation))


def test_terms_are_averaged_by_examples() -> None:
    terms = TermMeans()
    list(terms.count([update(1, 1.0), update(3, 5.0)]))
    assert terms.value() == {"loss": 4.0}


def test_the_draw_has_the_asked_size_and_differs_between_rounds() -> None:
    simulation = simulate("clients=20", "participation=0.2", "partition=homogeneous", "partition.minimum=1")
    drawn = [sample_clients(simulation.federation, number) for number in range(1, 30)]
    assert all(len(set(clients)) == 4 for clients in drawn)
    assert len({tuple(sorted(clients)) for clients in drawn}) > 10
    assert {client for clients in drawn for client in clients} == set(range(20))


def test_a_poisson_draw_takes_each_client_by_itself_and_perhaps_nobody() -> None:
    """Each at the rate, whoever else is drawn: numbers in a round vary as those of a binomial do."""
    words = ("clients=20", "participation=0.1", "sampling=poisson", "partition=homogeneous", "partition.minimum=1")
    federation = simulate(*words).federation
    drawn = [sample_clients(federation, number) for number in range(1, 2001)]
    assert drawn == [sample_clients(federation, number) for number in range(1, 2001)]
    there = np.array([[client in clients for client in range(20)] for clients in drawn], dtype=float)
    assert np.abs(there.mean(axis=0) - 0.1).max() < 4 * np.sqrt(0.1 * 0.9 / 2000)
    assert np.abs(np.corrcoef(there.T) - np.eye(20)).max() < 5 / np.sqrt(2000)
    numbers = there.sum(axis=1)
    assert numbers.var() == pytest.approx(20 * 0.1 * 0.9, rel=0.15)
    assert (numbers == 0).mean() == pytest.approx(0.9**20, abs=0.03)
    everybody = simulate("sampling=poisson").federation
    assert all(sorted(sample_clients(everybody, number)) == list(range(4)) for number in range(1, 20))


def test_even_the_smallest_participation_draws_somebody() -> None:
    simulation = simulate("participation=0.001")
    assert len(sample_clients(simulation.federation, 1)) == 1


def test_clients_with_most_examples_come_first() -> None:
    simulation = simulate()
    sizes = [len(simulation.shards.parts[client]) for client in sample_clients(simulation.federation, 1)]
    assert sizes == sorted(sizes, reverse=True)
