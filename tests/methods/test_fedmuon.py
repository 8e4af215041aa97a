from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from plain import batches, close, info, number, send, update
from small import digest, small
from torch.nn.functional import cross_entropy

from feddecorr.core.messages import Server
from feddecorr.core.randomness import threads
from feddecorr.errors import UserError
from feddecorr.methods import METHODS
from feddecorr.methods.fedmuon import polar_factor
from feddecorr.runs.pipeline import run
from feddecorr.server.federation import Simulation
from feddecorr.training.client import METHOD, Client


@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (4, 2, 3, 3), (7,), (1,)])
def test_many_iterations_give_the_polar_factor(shape: tuple[int, ...]) -> None:
    """UVᵀ by the singular value decomposition; of a vector, its direction."""
    matrix = torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    flat = matrix.view(-1, 1) if matrix.ndim == 1 else matrix.flatten(1)
    u, _, v = torch.linalg.svd(flat, full_matrices=False)
    torch.testing.assert_close(polar_factor(matrix, 60), (u @ v).view(shape))


def test_iterations_bring_singular_values_nearer_to_one_and_keep_directions() -> None:
    """Without any they are divided by the norm; one maps s to (15·s − 10·s³ + 3·s⁵)/8, which is never above 1."""
    values = torch.tensor([3.0, 1.0, 0.2], dtype=torch.float64)
    turn = torch.linalg.qr(torch.randn(3, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(2))).Q
    matrix = turn @ values.diag()
    s = values / values.norm()
    torch.testing.assert_close(polar_factor(matrix, 0), turn @ s.diag())
    torch.testing.assert_close(polar_factor(matrix, 1), turn @ ((15 * s - 10 * s**3 + 3 * s**5) / 8).diag())
    singular = [torch.linalg.svdvals(polar_factor(matrix, count)) for count in range(12)]
    assert all(bool((after >= before - 1e-12).all()) for before, after in pairwise(singular))
    assert all(float(each.max()) <= 1 + 1e-12 for each in singular)
    assert not polar_factor(torch.zeros(2, 3), 5).any()


@threads(1)
def test_a_round_of_a_client_that_remembers() -> None:
    """M begins at Cᵢ; each step is along the polar factor of M − Cᵢ + C; and Cᵢ becomes the last M."""
    words = ["method=fedmuon", "method.alpha=0.3", "method.iterations=3", "training.weight_decay=0"]
    experiment = small(*words).experiment
    simulation = Simulation(experiment)
    begun = simulation.federation.start()
    stream = torch.Generator().manual_seed(3)
    common, own = (
        {name: 0.01 * torch.randn(weight.shape, generator=stream) for name, weight in begun.weights.items()}
        for _ in range(2)
    )
    sent = send(Server(begun.weights, begun.buffers, common), 4)
    model = simulation.task.build_model().train()
    momentum = {name: each.clone() for name, each in own.items()}
    for x, y in batches(experiment, 1, 4):
        gradients = torch.autograd.grad(cross_entropy(model(x), y), list(model.parameters()))
        with torch.no_grad():
            for (name, parameter), gradient in zip(model.named_parameters(), gradients, strict=True):
                momentum[name] = 0.7 * momentum[name] + 0.3 * gradient
                step = polar_factor(momentum[name] - own[name] + common[name], 3)
                parameter.sub_(step, alpha=experiment.training.lr)
    memory = {METHOD + name: each for name, each in own.items()}
    found, kept = Client(simulation.task)(sent, simulation.shards[1], memory)
    assert close(found.weights, {name: each.detach() for name, each in model.named_parameters()}, 1e-4)
    assert close({name.removeprefix(METHOD): each for name, each in kept.items()}, momentum, 1e-4)
    assert close(found.extra, {name: each - own[name] for name, each in momentum.items()}, 1e-4)


def test_the_server_moves_by_the_share_of_those_who_came() -> None:
    """Three of four examples: from 2 three quarters of the way to the mean, 6; and C by 3/4 of the mean change."""
    method = METHODS.parse({"name": "fedmuon"})
    updates = [
        replace(update(0, 1, number(4.0)), extra=number(1.0)),
        replace(update(2, 2, number(7.0)), extra=number(4.0)),
    ]
    server = method.aggregate(Server(number(2.0), {}, number(10.0)), updates, info(1, 1, 2))
    assert close(server.weights, number(5.0))
    assert close(server.shared, number(10 + 0.75 * 3))


def test_the_momentum_is_its_own() -> None:
    """`training.momentum` changes nothing, to the last bit; another optimizer is refused."""
    ends = {
        digest([*run(*small("method=fedmuon", f"training.momentum={momentum}"))][-1].state) for momentum in (0, 0.9)
    }
    assert len(ends) == 1
    with pytest.raises(UserError, match=r"it needs training\.optimizer=sgd"):
        small("method=fedmuon", "training.optimizer=adamw")
