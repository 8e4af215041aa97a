import torch
from plain import close, send, train, weights_of
from small import simulate, small
from torch import Tensor, nn
from torch.nn.functional import nll_loss

from feddecorr.server.federation import Simulation
from feddecorr.training.client import Client

SKEWED = ["partition.alpha=0.05", "partition.minimum=2"]


def held(simulation: Simulation, client: int) -> set[int]:
    return set(simulation.dataset.train.labels[simulation.shards.parts[client]].tolist())


def test_logits_of_classes_that_the_client_lacks_are_scaled() -> None:
    """Against the restricted softmax written out."""
    experiment = small("method=fedrs", "method.alpha=0.3", *SKEWED).experiment
    simulation = Simulation(experiment)
    client = next(number for number in range(4) if 1 < len(held(simulation, number)) < 4)
    present = held(simulation, client)
    sent = send(simulation.federation.start())

    def loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        scaled = torch.stack([z * (1.0 if c in present else 0.3) for c, z in enumerate(model(x).T)], dim=1)
        return nll_loss((scaled.exp() / scaled.exp().sum(1, keepdim=True)).log(), y)

    update, _ = Client(simulation.task)(sent, simulation.shards[client], {})
    assert close(update.weights, weights_of(train(experiment, sent, client, loss)), 1e-4)


def test_with_alpha_zero_the_classifier_of_a_missing_class_is_left_alone() -> None:
    """Its logit no longer depends on its weights."""
    simulation = simulate("method=fedrs", "method.alpha=0", "training.weight_decay=0", *SKEWED)
    client = next(number for number in range(4) if len(held(simulation, number)) < 4)
    sent = send(simulation.federation.start())
    update, _ = Client(simulation.task)(sent, simulation.shards[client], {})
    missing = sorted(set(range(4)) - held(simulation, client))
    assert torch.equal(update.weights["classifier.weight"][missing], sent.weights["classifier.weight"][missing])
