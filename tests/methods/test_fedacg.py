import pytest
import torch
from plain import close, info, number, send, train, update, weights_of
from small import digest, simulate, small
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from feddecorr.core.messages import Server
from feddecorr.methods.fedacg import FedACG
from feddecorr.runs.pipeline import run
from feddecorr.server.federation import Simulation
from feddecorr.training.client import Client


def test_three_rounds_by_hand() -> None:
    """With λ = 1/2 and mean changes of 4, 1 and 0 from what is sent, m is 4, 3 and 1.5.

    So w goes from 1 to 5, 8 and 9.5, and clients begin at 1, 5 + 2 and 8 + 1.5.
    """
    method = FedACG(momentum=0.5)
    server = method.start(Server(number(1.0), {}), info(1, 1))
    sent, places = [], []
    for change in (4.0, 1.0, 0.0):
        here = float(method.broadcast(1, server).weights["w"])
        sent.append(here)
        updates = [update(0, 1, number(here + change - 1)), update(1, 1, number(here + change + 1))]
        server = method.aggregate(server, updates, info())
        places.append(float(server.weights["w"]))
    assert sent == pytest.approx([1.0, 7.0, 9.5])
    assert places == pytest.approx([5.0, 8.0, 9.5])


def test_clients_are_held_near_what_was_sent() -> None:
    """Against the proximal term written out, from weights that are ahead of the server's."""
    experiment = small("method=fedacg", "method.mu=2").experiment
    simulation = Simulation(experiment)
    start = simulation.federation.start()
    moved = Server(start.weights, start.buffers, memory={name: 0.1 + 0 * w for name, w in start.weights.items()})
    sent = experiment.method.broadcast(1, moved)
    assert close(sent.weights, {name: weight + 0.085 for name, weight in start.weights.items()})

    def loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        gaps = [(p - sent.weights[name]).square().sum() for name, p in model.named_parameters()]
        return cross_entropy(model(x), y) + torch.stack(gaps).sum()

    found, _ = Client(simulation.task)(sent, simulation.shards[1], {})
    assert close(found.weights, weights_of(train(experiment, sent, 1, loss)), 1e-4)


def test_the_first_round_looks_nowhere() -> None:
    """Without movement there is no momentum: what is sent is the model itself, to the last bit."""
    simulation = simulate("method=fedacg")
    server = simulation.federation.start()
    sent = simulation.task.experiment.method.broadcast(1, server)
    assert digest(sent.weights) == digest(send(server).weights)


def test_the_model_of_a_round_is_the_clients_mean_not_what_is_sent_next() -> None:
    """With one client, the recorded global model is that client's."""
    words = ["clients=1", "partition=homogeneous", "method=fedacg", "evaluation.clients=true", "evaluation.every=1"]
    for record in run(*small(*words)):
        assert record.model is not None
        assert record.local_models[0].singular_values == record.model.singular_values
