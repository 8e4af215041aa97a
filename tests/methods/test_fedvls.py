import math

import pytest
import torch
from plain import close, send, train, weights_of
from small import small
from torch import Tensor, nn

from feddecorr.core.randomness import threads
from feddecorr.methods.fedvls import suppression
from feddecorr.server.federation import Simulation
from feddecorr.training.client import Client

WORDS = ["method=fedvls", "data.classes=6", "partition.alpha=0.1", "method.weight=0.4"]


@threads(1)
@pytest.mark.parametrize("variant", ["published", "released"])
def test_a_client_that_lacks_classes(variant: str) -> None:
    """Against balanced softmax, divergence and suppression written out, number by number."""
    experiment = small(*WORDS, f"method.variant={variant}").experiment
    simulation = Simulation(experiment)
    sent = send(simulation.federation.start())
    table = [torch.bincount(simulation.shards[client].images.labels, minlength=6).tolist() for client in range(4)]
    client = max(range(4), key=lambda client: table[client].count(0))
    counts = table[client]
    shares = [count / sum(counts) for count in counts]
    vacant = [c for c in range(6) if not counts[c]]
    assert len(vacant) > 1
    globe = simulation.task.build_model().eval()

    def loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        logits, known, labels = model(x), globe(x).detach(), y.tolist()
        total = torch.zeros(())
        for row, theirs, label in zip(logits, known, labels, strict=True):
            every = sum(p * row[c].exp() for c, p in enumerate(shares))
            total = total - (shares[label] * row[label].exp() / every).log()
            mine, old = row[vacant].softmax(0), theirs[vacant].softmax(0)
            total = total + 0.4 * (old * (old / mine).log()).sum()
        total = total / len(labels)
        for c, p in enumerate(shares):
            others = [row[c] for row, label in zip(logits, labels, strict=True) if label != c]
            if variant == "published" and others and p:
                total = total + p * torch.stack([each.exp() for each in others]).mean().log()
            if variant == "released":
                wrong = sum((((each - math.log(p + 1e-9)).exp() / 6) for each in others), torch.zeros(()))
                total = total + 0.005 * p * ((wrong + len(labels) - len(others)) / len(labels)).log()
        return total

    update, _ = Client(simulation.task)(sent, simulation.shards[client], {})
    assert close(update.weights, weights_of(train(experiment, sent, client, loss)), 1e-3)
    assert update.metrics.keys() == {"cross_entropy", "vacant_distillation", "logit_suppression"}


def test_a_class_of_all_samples_has_no_wrong_logits() -> None:
    """Its summand is left out, with a gradient that is a number."""
    logits = torch.randn(3, 2, generator=torch.Generator().manual_seed(0), requires_grad=True)
    value = suppression(logits, torch.zeros(3, dtype=torch.long), torch.tensor([0.75, 0.25]))
    value.backward()
    torch.testing.assert_close(value, 0.25 * (logits[:, 1].exp().mean()).log())
    assert logits.grad is not None
    assert not logits.grad[:, 0].any()
    assert bool(logits.grad.isfinite().all())


def test_who_lacks_no_two_classes_distils_nothing() -> None:
    simulation = Simulation(small("method=fedvls", "partition=homogeneous").experiment)
    update, _ = Client(simulation.task)(send(simulation.federation.start()), simulation.shards[0], {})
    assert update.metrics.keys() == {"cross_entropy", "logit_suppression"}
