import torch
from plain import close, send, train, weights_of
from small import small
from torch import Tensor, nn

from feddecorr.data.dataset import Images
from feddecorr.server.federation import Simulation
from feddecorr.training.client import Client
from feddecorr.training.shards import Shard

SKEWED = ["partition.alpha=0.05", "partition.minimum=2"]


def counts(simulation: Simulation, client: int) -> list[int]:
    labels = simulation.dataset.train.labels[simulation.shards.parts[client]].tolist()
    return [labels.count(label) for label in range(4)]


def test_each_logit_is_lowered_by_tau_over_the_fourth_root_of_its_count() -> None:
    """Against the formula written out, over the classes that the client holds."""
    experiment = small("method=fedlc", "method.tau=2", *SKEWED).experiment
    simulation = Simulation(experiment)
    client = next(number for number in range(4) if 1 < sum(map(bool, counts(simulation, number))) < 4)
    n = counts(simulation, client)
    sent = send(simulation.federation.start())

    def loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        logits = model(x)
        calibrated = {c: (logits[:, c] - 2 / n[c] ** 0.25).exp() for c in range(4) if n[c]}
        total = torch.stack(list(calibrated.values())).sum(0)
        own = torch.stack([calibrated[label][i] for i, label in enumerate(y.tolist())])
        return -(own / total).log().mean()

    update, _ = Client(simulation.task)(sent, simulation.shards[client], {})
    assert close(update.weights, weights_of(train(experiment, sent, client, loss)), 1e-4)


def test_a_client_of_one_class_learns_nothing_from_it_and_nothing_breaks() -> None:
    """There is nothing to tell that class from: the loss is zero and its gradient too."""
    experiment = small("method=fedlc", "training.weight_decay=0", "clients=2", "training.momentum=0").experiment
    simulation = Simulation(experiment)
    train = simulation.dataset.train
    shard = Shard(0, Images(train.pixels[train.labels == 2], train.labels[train.labels == 2]))
    sent = send(simulation.federation.start())
    update, _ = Client(simulation.task)(sent, shard, {})
    assert update.metrics["cross_entropy"] == 0
    assert all(torch.equal(update.weights[name], weight) for name, weight in sent.weights.items())
