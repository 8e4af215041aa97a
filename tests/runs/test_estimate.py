"""What a round is said to cost."""

from dataclasses import replace

import pytest
import torch
from small import small
from torch.utils.flop_counter import FlopCounterMode

from feddecorr.runs.estimate import round_flops
from feddecorr.runs.pipeline import run, simulate
from feddecorr.training.client import Client

WHOLE = ["clients=1", "partition=homogeneous", "training.batch=16", "training.epochs=3", "data.train=64"]
"""One client with four whole batches, so that nothing has to be estimated."""


def flops(*words: str) -> float:
    experiment, options = small(*words)
    return round_flops(experiment, options, simulate(experiment, options).dataset.outline)


@pytest.mark.parametrize("method", ["fedavg", "moon", "fedsam", "fedntd", "feddr"])
def test_a_round_costs_what_a_round_computes(method: str) -> None:
    """In every pass of the method, also where answers of reference models are kept from the first epoch on."""
    words = [f"method={method}", *WHOLE]
    simulation = simulate(*small(*words))
    server = simulation.federation.start()
    sent = replace(simulation.task.experiment.method.broadcast(1, server), round=1)
    client, shard = Client(simulation.task), simulation.shards[0]
    _, memory = client(sent, shard, {})
    with FlopCounterMode(display=False) as counter:
        client(sent, shard, memory)
    assert flops(*words) == pytest.approx(counter.get_total_flops())


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
