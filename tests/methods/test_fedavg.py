import torch
from plain import close, send, train, weights_of
from small import small

from feddecorr.server.federation import Simulation
from feddecorr.training.client import Client


def test_a_client_is_plain_sgd_with_momentum_and_weight_decay() -> None:
    """And the round is the mean of such clients by their numbers of examples."""
    experiment = small("training.weight_decay=0.01").experiment
    simulation = Simulation(experiment)
    server, client = simulation.federation.start(), Client(simulation.task)
    updates = [client(send(server), simulation.shards[number], {})[0] for number in range(4)]
    trained = [weights_of(train(experiment, send(server), number)) for number in range(4)]
    sizes = [len(part) for part in simulation.shards.parts]
    expected = {
        name: torch.stack([size * weights[name] for size, weights in zip(sizes, trained, strict=True)]).sum(0)
        / sum(sizes)
        for name in server.weights
    }
    assert close(experiment.method.aggregate(server, updates, simulation.federation.info(1)).weights, expected)
