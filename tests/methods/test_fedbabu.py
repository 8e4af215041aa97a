import pytest
import torch
from plain import close, send, train, weights_of
from small import small
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, linear

from feddecorr.errors import UserError
from feddecorr.runs.pipeline import run
from feddecorr.server.federation import Simulation
from feddecorr.training.client import Client

DECAY = "training.weight_decay=0.1"
HEAD = ("classifier.weight", "classifier.bias")


def test_the_body_is_trained_under_a_classifier_that_stays() -> None:
    """Against training with the first classifier written into the loss; weight decay does not shrink it."""
    experiment = small("method=fedbabu", DECAY).experiment
    simulation = Simulation(experiment)
    sent = send(simulation.federation.start())
    weight, bias = (sent.weights[name].clone() for name in HEAD)

    def loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        idle = sum(0 * parameter.sum() for parameter in model.get_submodule("classifier").parameters())
        return cross_entropy(linear(model.get_submodule("features")(x), weight, bias), y) + idle

    update, _ = Client(simulation.task)(sent, simulation.shards[1], {})
    expected = weights_of(train(experiment, sent, 1, loss))
    assert all(torch.equal(update.weights[name], sent.weights[name]) for name in HEAD)
    assert not any(torch.equal(update.weights[name], sent.weights[name]) for name in expected if name not in HEAD)
    assert close({**update.weights, **dict.fromkeys(HEAD, weight)}, {**expected, **dict.fromkeys(HEAD, weight)}, 1e-4)


@pytest.mark.parametrize("method", ["fedbabu", "feddr"])
@pytest.mark.parametrize("beside", ["", "training.clients_per_batch=2", "training.pre_aggregate=true"])
def test_the_classifier_stays_to_the_last_bit(method: str, beside: str) -> None:
    """Through three rounds of everybody, also of clients that train side by side, and of their mean."""
    beside = f"training.clients_per_batch=2 {beside}" if beside else beside
    experiment, options = small(f"method={method}", DECAY, *beside.split())
    start = Simulation(experiment).federation.start().weights
    *_, last = run(experiment, options)
    assert all(torch.equal(last.state[name], start[name]) for name in HEAD)
    assert not torch.equal(last.state["features.0.weight"], start["features.0.weight"])


def test_from_its_round_on_the_classifier_is_trained() -> None:
    """It is FedBABU before, to the last bit, and that round's clients are adapted whole."""
    first, second, third = run(*small("method=fedbabu", "method.head_from=3", "evaluation.clients=true"))
    kept = [record.state for record in run(*small("method=fedbabu"))]
    assert all(torch.equal(first.state[name], kept[0][name]) for name in kept[0])
    assert all(torch.equal(second.state[name], kept[1][name]) for name in kept[1])
    assert torch.equal(second.state["classifier.weight"], first.state["classifier.weight"])
    assert not torch.equal(third.state["classifier.weight"], first.state["classifier.weight"])
    assert len(third.local_models) == 4


def test_a_network_of_a_classifier_alone_is_refused() -> None:
    with pytest.raises(UserError, match="FedBABU leaves the classifier as it is, and nothing else"):
        list(run(*small("method=fedbabu", "model=mlp", "model.widths=[]")))
