import pytest
import torch
from plain import classify, close, info, number, same, send, train, update, weights_of
from small import digest, simulate, small
from torch import Tensor, nn

from feddecorr.core.messages import Broadcast, Server
from feddecorr.core.states import State
from feddecorr.methods.scaffold import SCAFFOLD
from feddecorr.objective.optimizers import FusedSGD
from feddecorr.objective.terms import ClientContext, Trained
from feddecorr.runs.pipeline import run
from feddecorr.server.federation import Simulation
from feddecorr.training.client import METHOD, Client


def context(sent: Broadcast, memory: State) -> ClientContext:
    return ClientContext(0, sent, memory, nn.Linear(1, 1), torch.zeros(1, dtype=torch.long), 1)


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_the_variate_is_the_mean_gradient_on_a_problem_of_constant_gradient(momentum: float) -> None:
    """With momentum too, where the bare number of steps would give up to ten times as much."""
    gradient, c, mine = number(3.0, -1.0), number(0.5, 0.25), number(-2.0, 4.0)
    weights = number(7.0, 7.0)["w"]
    optimizer = FusedSGD([weights], lr=0.01, momentum=momentum, weight_decay=0.0)
    for _ in range(40):
        optimizer.step([gradient["w"] + c["w"] - mine["w"]])
    sent = Broadcast(2, number(7.0, 7.0), {}, c)
    trained = Trained({"w": weights}, {}, optimizer.amount)
    change, variate = SCAFFOLD().finish(context(sent, mine), trained)
    assert close(variate, gradient, 1e-9)
    assert close(change, {"w": gradient["w"] - mine["w"]}, 1e-9)


def test_two_rounds_of_the_published_algorithm() -> None:
    """Against loops over clients of equal size and plain SGD, with option II for the variates."""
    words = ["partition=homogeneous", "training.momentum=0", "training.weight_decay=0", "rounds=2"]
    experiment, options = small("method=scaffold", *words)
    simulation = Simulation(experiment)
    clients, lr = range(4), experiment.training.lr
    steps = experiment.training.epochs * 2  # batches of 16 and of 14
    server = simulation.federation.start()
    x, buffers = server.weights, server.buffers
    c = {name: torch.zeros_like(weight) for name, weight in x.items()}
    own = [c for _ in clients]
    for number_ in (1, 2):
        sent = Broadcast(number_, x, buffers, {})
        models = []
        for client in clients:
            gaps = {name: c[name] - own[client][name] for name in x}

            def loss(model: nn.Module, images: Tensor, y: Tensor, gaps: State = gaps) -> Tensor:
                pull = [(gaps[name] * weight).sum() for name, weight in model.named_parameters()]
                return classify(model, images, y) + torch.stack(pull).sum()

            models.append(train(experiment, sent, client, loss))
        trained = [weights_of(model) for model in models]
        new = [
            {name: own[i][name] - c[name] + (x[name] - trained[i][name]) / (steps * lr) for name in x} for i in clients
        ]
        c = {name: c[name] + torch.stack([new[i][name] - own[i][name] for i in clients]).mean(0) for name in c}
        x = {name: torch.stack([weights[name] for weights in trained]).mean(0) for name in x}
        buffers = {name: sum(model.state_dict()[name] for model in models) / 4 for name in buffers}
        own = new
    *_, record = run(experiment, options)
    assert close({name: record.state[name] for name in x}, x, 1e-4)


def test_the_first_round_is_fedavg_to_the_last_bit() -> None:
    """Control variates start at zero."""
    assert digest(next(run(*small("method=scaffold"))).state) == digest(next(run(*small())).state)


def test_after_a_full_round_c_is_the_mean_of_the_clients_variates_by_examples() -> None:
    """So that the corrections of all clients cancel out."""
    simulation = simulate("method=scaffold")
    client, server = Client(simulation.task), simulation.federation.start()
    played = [client(send(server), simulation.shards[number_], {}) for number_ in range(4)]
    moved = simulation.task.experiment.method.aggregate(
        server, [update_ for update_, _ in played], simulation.federation.info(1)
    )
    shares = [len(part) / 120 for part in simulation.shards.parts]
    expected = {
        name: torch.stack(
            [share * memory[METHOD + name] for share, (_, memory) in zip(shares, played, strict=True)]
        ).sum(0)
        for name in server.weights
    }
    assert close(moved.shared, expected, 1e-5)


def test_a_part_of_the_clients_moves_c_by_their_share_of_all_examples() -> None:
    """30 of 120 examples, with mean change 2, move c from 1 to 1.5; who is not drawn keeps his part in it."""
    method = SCAFFOLD()
    server = method.start(Server(number(0.0), {}), info(10, 20, 90))
    server = Server(server.weights, {}, number(1.0), server.memory)
    updates = [update(0, 10, number(1.0)), update(1, 20, number(1.0))]
    for update_ in updates:
        update_.extra.update(number(2.0))
    assert same(method.aggregate(server, updates, info(10, 20, 90)).shared, number(1.5))
