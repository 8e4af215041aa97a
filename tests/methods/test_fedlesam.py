import torch
from plain import batches, close, same, send
from small import digest, small
from torch.nn.functional import cross_entropy

from feddecorr.core.randomness import threads
from feddecorr.runs.pipeline import run
from feddecorr.server.federation import Simulation
from feddecorr.training.client import METHOD, Client

PLAIN = ("training.momentum=0", "training.weight_decay=0")


@threads(1)
def test_the_gradient_is_taken_back_along_the_global_update() -> None:
    """Against one forward and backward pass a step, at a distance of ρ towards what was sent in round 1."""
    experiment = small("method=fedlesam", "method.rho=0.2", *PLAIN).experiment
    simulation = Simulation(experiment)
    first = simulation.federation.start().weights
    stream = torch.Generator().manual_seed(0)
    gaps = {name: 0.01 * torch.randn(weight.shape, generator=stream) for name, weight in first.items()}
    sent = send(simulation.federation.start(), 5)
    memory = {METHOD + name: weight + gaps[name] for name, weight in first.items()}
    length = torch.cat([gap.flatten() for gap in gaps.values()]).norm()
    model = simulation.task.build_model().train()
    for x, y in batches(experiment, 1, 5):
        here = {name: each.detach().clone() for name, each in model.named_parameters()}
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                parameter.add_(gaps[name], alpha=0.2 / float(length))
        gradients = torch.autograd.grad(cross_entropy(model(x), y), list(model.parameters()))
        with torch.no_grad():
            for (name, parameter), gradient in zip(model.named_parameters(), gradients, strict=True):
                parameter.copy_(here[name] - experiment.training.lr * gradient)
    update, kept = Client(simulation.task)(sent, simulation.shards[1], memory)
    assert close(update.weights, {name: each.detach() for name, each in model.named_parameters()}, 1e-4)
    assert close(update.buffers, dict(model.named_buffers()), 1e-4)
    assert same({name.removeprefix(METHOD): weight for name, weight in kept.items()}, sent.weights)


def test_a_clients_first_round_is_fedavg() -> None:
    """To the last bit: there is no update to look back along; the second round is another one."""
    plain, perturbed = (list(run(*small(f"method={name}", "rounds=2"))) for name in ("fedavg", "fedlesam"))
    assert digest(plain[0].state) == digest(perturbed[0].state)
    assert digest(plain[1].state) != digest(perturbed[1].state)
