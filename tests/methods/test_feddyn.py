import torch
from plain import classify, close, info, number, train, update, weights_of
from small import small
from torch import Tensor, nn

from feddecorr.core.messages import Broadcast, Server
from feddecorr.core.states import State
from feddecorr.methods.feddyn import FedDyn
from feddecorr.runs.pipeline import run
from feddecorr.server.federation import Simulation

ALPHA = 0.3


def test_three_rounds_of_the_published_algorithm() -> None:
    """Against the linear and the quadratic penalty written out, with clients of equal size."""
    words = ["partition=homogeneous", "method=feddyn", f"method.alpha={ALPHA}", "training.momentum=0"]
    experiment, options = small(*words)
    server = Simulation(experiment).federation.start()
    theta, buffers = server.weights, server.buffers
    h: State = {name: torch.zeros_like(weight) for name, weight in theta.items()}
    own = [h for _ in range(4)]
    for round_ in (1, 2, 3):
        sent = Broadcast(round_, theta, buffers, {})
        models = []
        for client in range(4):

            def loss(model: nn.Module, x: Tensor, y: Tensor, sent: Broadcast = sent, g: State = own[client]) -> Tensor:
                value = classify(model, x, y)
                for name, weight in model.named_parameters():
                    value = value - (g[name] * weight).sum()
                    value = value + ALPHA / 2 * (weight - sent.weights[name]).square().sum()
                return value

            models.append(train(experiment, sent, client, loss))
        trained = [weights_of(model) for model in models]
        own = [
            {name: g[name] - ALPHA * (weights[name] - theta[name]) for name in theta}
            for g, weights in zip(own, trained, strict=True)
        ]
        h = {name: h[name] - ALPHA / 4 * sum(weights[name] - theta[name] for weights in trained) for name in h}
        theta = {name: sum(weights[name] for weights in trained) / 4 - h[name] / ALPHA for name in theta}
        buffers = {name: sum(model.state_dict()[name] for model in models) / 4 for name in buffers}
    *_, record = run(experiment, options)
    assert close({name: record.state[name] for name in theta}, theta, 1e-3)


def test_a_round_of_a_part_of_the_clients_by_hand() -> None:
    """From 2, clients with 30 of 120 examples go to 6 on average: the mean drift is −1, and 6 + 1 = 7."""
    method = FedDyn()
    server = method.start(Server(number(2.0), {}), info(10, 20, 90))
    moved = method.aggregate(server, [update(0, 10, number(4.0)), update(1, 20, number(7.0))], info(10, 20, 90))
    assert close(moved.weights, number(7.0), 1e-12)


def test_rounds_in_which_nobody_moves_leave_the_server_where_it_is_only_without_drift() -> None:
    """A drift of d is taken off the mean in every round."""
    method = FedDyn()
    server = method.start(Server(number(2.0), {}), info(1))
    assert close(method.aggregate(server, [update(0, 1, number(2.0))], info()).weights, number(2.0))
    drifted = Server(number(2.0), {}, {}, {**server.memory, "drift/w": number(0.5)["w"]})
    assert close(method.aggregate(drifted, [update(0, 1, number(2.0))], info()).weights, number(1.5))
