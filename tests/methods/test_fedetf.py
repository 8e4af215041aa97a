import math

import pytest
import torch
from plain import close, send, train, weights_of
from small import small
from torch import Tensor, nn

from feddecorr.errors import UserError
from feddecorr.models import ConvNet
from feddecorr.server.federation import Simulation
from feddecorr.training.client import Client


def test_the_softmax_is_balanced_by_the_clients_counts() -> None:
    """Each class with as many copies as the client has examples of it, written out sample by sample."""
    experiment = small("method=fedetf").experiment
    simulation = Simulation(experiment)
    sent = send(simulation.federation.start())
    counts = torch.bincount(simulation.shards[1].images.labels, minlength=4).tolist()

    def loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        found = []
        for row, label in zip(model(x), y.tolist(), strict=True):
            total = torch.stack([n * row[c].exp() for c, n in enumerate(counts)]).sum()
            found.append(total.log() - row[label] - math.log(counts[label]))
        return torch.stack(found).mean()

    update, _ = Client(simulation.task)(sent, simulation.shards[1], {})
    assert close(update.weights, weights_of(train(experiment, sent, 1, loss)), 1e-4)


def test_it_is_whole_or_not_at_all() -> None:
    """The simplex with its projection comes along; another head is refused, and other options of the head are free."""
    experiment = small("method=fedetf", "model.temperature=0.5").experiment
    names = dict(Simulation(experiment).federation.task.build_model().named_modules())
    assert (experiment.model.head, experiment.model.temperature) == ("etf", 0.5)
    assert isinstance(names["projection"], nn.Linear)
    assert small("method=fedetf", "model=mlp").experiment.model.head == "etf"
    with pytest.raises(UserError, match=r"fedetf needs model\.head=etf, not linear"):
        small("method=fedetf", "model.head=linear")
    with pytest.raises(UserError, match=r"fedetf needs model\.head=etf, not linear"):
        type(experiment).parse({"method": experiment.method, "model": ConvNet()})
