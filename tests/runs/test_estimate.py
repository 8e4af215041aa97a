"""What a round is said to cost."""

import pytest
import torch
from small import small
from torch.utils.flop_counter import FlopCounterMode

from feddecorr.runs.estimate import FlopCounter, LargestClient, count_flops
from feddecorr.runs.pipeline import run, simulate

WHOLE = ["clients=1", "partition=homogeneous", "training.batch=16", "training.epochs=3", "data.train=64"]
"""One client with four whole batches, so that nothing has to be estimated."""


def flops(*words: str) -> float:
    return count_flops(simulate(*small(*words)))


@pytest.mark.parametrize("method", ["fedavg", "moon", "fedsam", "fedntd", "feddr"])
def test_a_round_costs_what_a_round_computes(method: str) -> None:
    """In every pass of the method, also where answers of reference models are kept from the first epoch on."""
    simulation = simulate(*small(f"method={method}", *WHOLE))
    client = LargestClient(simulation)
    client.train(images=16, epochs=1)
    with FlopCounter() as counter:
        client.train(epochs=3)
    assert count_flops(simulation) == pytest.approx(counter.total)


def test_operations_are_counted_as_by_pytorch() -> None:
    """Forward and backward of convolutions and products, and of what is made of both."""
    network = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.Flatten(), torch.nn.Linear(16, 5))
    x = torch.randn(2, 3, 4, 4)
    totals = []
    for counter in (FlopCounter(), FlopCounterMode(display=False)):
        with counter:
            (network(x).square().sum() + torch.einsum("ni,nj->ij", *2 * [network(x)]).sum()).backward()
        totals.append(counter.total if isinstance(counter, FlopCounter) else counter.get_total_flops())
    assert totals[0] == totals[1] > 0


def test_operations_grow_with_work() -> None:
    """Twice the clients of a round or twice the epochs are twice the operations; FedSAM's steps have two gradients."""
    plain = flops(*WHOLE)
    assert flops(*WHOLE, "training.epochs=6") == pytest.approx(2 * plain)
    assert flops(*WHOLE, "method=fedsam") == pytest.approx(2 * plain)
    several = [*WHOLE, "clients=4", "training.batch=8"]
    assert flops(*several, "participation=0.5") == pytest.approx(flops(*several) / 2)
    assert flops(*WHOLE, "regularizers=feddecorr") > plain


def test_a_run_records_them_in_its_last_round_where_they_are_asked_for() -> None:
    """And no bit of it changes."""
    without, counted = (list(run(*small("rounds=2", *words))) for words in ([], ["evaluation.flops=true"]))
    assert [record.flops is not None for record in [*without, *counted]] == [False, False, False, True]
    assert counted[-1].flops == flops()
    for name, tensor in without[-1].state.items():
        assert torch.equal(tensor, counted[-1].state[name])
