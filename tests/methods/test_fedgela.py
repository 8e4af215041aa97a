import torch
from plain import close, send, train, weights_of
from small import small
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, normalize

from feddecorr.core.randomness import threads
from feddecorr.objective.terms import ClientContext, Pass
from feddecorr.server.federation import Simulation
from feddecorr.training.client import Client


@threads(1)
def test_rows_of_the_simplex_are_as_long_as_the_class_is_frequent() -> None:
    """C·n/Σn times, at the client alone; a class that it lacks has the logit 0, and simplex and scale stay."""
    experiment = small("method=fedgela", "model.temperature=0.5", "training.weight_decay=0").experiment
    simulation = Simulation(experiment)
    sent = send(simulation.federation.start())
    labels = simulation.shards[1].images.labels
    share = torch.bincount(labels, minlength=4) / len(labels)
    simplex = sent.buffers["classifier.weight"]

    def loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        z = model.get_submodule("projection")(model.get_submodule("features")(x))
        rows = simplex * (4 * share).unsqueeze(1)
        idle = sum(0 * parameter.sum() for parameter in model.get_submodule("classifier").parameters())
        return cross_entropy(2 * normalize(z) @ rows.T, y) + idle

    update, _ = Client(simulation.task)(sent, simulation.shards[1], {})
    assert close(update.weights, weights_of(train(experiment, sent, 1, loss)), 1e-4)
    assert torch.equal(update.weights["classifier.scale"], sent.weights["classifier.scale"])
    assert torch.equal(update.buffers["classifier.weight"], simplex)


def test_of_even_classes_it_is_the_cross_entropy() -> None:
    """All rows have their length of 1, to the last bit."""
    simulation = Simulation(small("method=fedgela").experiment)
    y = torch.arange(4).repeat(5)
    context = ClientContext(0, send(simulation.federation.start()), {}, simulation.task.build_model(), y, 4)
    term = simulation.task.experiment.method.terms(context)["cross_entropy"]
    logits = torch.randn(20, 4, generator=torch.Generator().manual_seed(0))
    assert term is not None
    assert torch.equal(term(Pass(logits, y, logits, logits, {})), cross_entropy(logits, y))
