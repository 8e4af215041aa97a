import torch
from plain import classify, close, same, send, train, weights_of
from small import digest, simulate, small
from torch import Tensor, nn

from feddecorr.runs.pipeline import run
from feddecorr.server.federation import Simulation
from feddecorr.training.client import Client


def test_local_training_minimizes_the_loss_and_half_mu_times_the_squared_distance() -> None:
    """Against the term written out and left to autograd."""
    experiment = small("method=fedprox", "method.mu=0.5").experiment
    simulation = Simulation(experiment)
    sent = send(simulation.federation.start())

    def loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        gaps = [(weight - sent.weights[name]).square().sum() for name, weight in model.named_parameters()]
        return classify(model, x, y) + 0.5 / 2 * torch.stack(gaps).sum()

    update, _ = Client(simulation.task)(sent, simulation.shards[2], {})
    assert close(update.weights, weights_of(train(experiment, sent, 2, loss)))


def test_the_proximal_term_is_positive_after_the_first_step() -> None:
    """The reference is a copy of the weights, not the live weights: with two steps the second one is pulled."""
    one_step = ["training.epochs=1", "training.batch=1000"]
    assert next(run(*small("method=fedprox", *one_step))).terms["proximal"] == 0
    assert next(run(*small("method=fedprox", *one_step, "training.epochs=2"))).terms["proximal"] > 0


def test_as_released_the_term_is_zero_and_the_run_is_that_of_fedavg() -> None:
    """Whatever μ is."""
    *_, record = run(*small("method=fedprox", "method.variant=released", "method.mu=10"))
    *_, plain = run(*small())
    assert record.terms["proximal"] == 0
    assert digest(record.state) == digest(plain.state)


def test_a_large_mu_holds_the_clients_at_the_weights_sent() -> None:
    """The distance shrinks as 1/μ."""
    words = ["method=fedprox", "training.momentum=0", "training.lr=0.001"]
    simulation = simulate(*words, "method.mu=0")
    sent = send(simulation.federation.start())
    moved = []
    for mu in (0, 900):
        held = simulate(*words, f"method.mu={mu}")
        update, _ = Client(held.task)(sent, held.shards[0], {})
        moved.append(sum(float((update.weights[name] - sent.weights[name]).norm()) for name in sent.weights))
    assert moved[1] < moved[0] / 3
    assert not same(update.weights, sent.weights)
