import torch
from plain import close, send, train, weights_of
from small import small
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from feddecorr.runs.pipeline import run
from feddecorr.server.federation import Simulation
from feddecorr.training.client import Client


def test_the_global_models_other_classes_are_distilled() -> None:
    """Against the divergence summed up class by class."""
    experiment = small("method=fedntd", "method.beta=2", "method.temperature=3").experiment
    simulation = Simulation(experiment)
    sent = send(simulation.federation.start())
    globe = simulation.task.build_model().eval()

    def others(logits: Tensor, label: int) -> Tensor:
        kept = torch.stack([logit for c, logit in enumerate(logits) if c != label]) / 3
        return kept.exp() / kept.exp().sum()

    def loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        logits, known = model(x), globe(x).detach()
        divergences = []
        for mine, theirs, label in zip(logits, known, y.tolist(), strict=True):
            p, q = others(theirs, label), others(mine, label)
            divergences.append((p * (p / q).log()).sum())
        return cross_entropy(logits, y) + 2 * torch.stack(divergences).mean()

    update, _ = Client(simulation.task)(sent, simulation.shards[1], {})
    assert close(update.weights, weights_of(train(experiment, sent, 1, loss)), 1e-4)


def test_between_two_classes_there_is_nothing_to_distil() -> None:
    """Only one class is not the true one, and its probability among the others is 1."""
    *_, record = run(*small("method=fedntd", "data.classes=2"))
    assert record.terms["distillation"] == 0
