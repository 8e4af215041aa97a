import pytest
import torch
from plain import close, send, train, weights_of
from small import small
from torch import Tensor, nn

from feddecorr.collapse.representation import capture_representations
from feddecorr.core.messages import Broadcast
from feddecorr.errors import UserError
from feddecorr.methods.feddr import FedDr
from feddecorr.objective.terms import ClientContext
from feddecorr.runs.pipeline import run
from feddecorr.server.federation import Simulation
from feddecorr.training.client import Client


@pytest.mark.parametrize("head", ["etf", "linear"])
def test_features_are_fitted_to_a_classifier_that_stays(head: str) -> None:
    """Against the two terms summed up sample by sample."""
    words = [f"model.head={head}", "model.projection=12", "training.weight_decay=0"]
    experiment = small("method=feddr", "method.beta=0.7", *words).experiment
    simulation = Simulation(experiment)
    sent = send(simulation.federation.start())
    globe = simulation.task.build_model().eval()

    def represent(model: nn.Module, x: Tensor) -> Tensor:
        with capture_representations(model) as seen:
            model(x)
        return seen.z

    def loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        rows = model.state_dict()["classifier.weight"]
        known = represent(globe, x).detach()
        terms = []
        for z, old, label in zip(represent(model, x), known, y.tolist(), strict=True):
            cosine = z @ rows[label] / (z.norm() * rows[label].norm())
            terms.append(0.7 * (cosine - 1) ** 2 / 2 + 0.3 * (z - old).square().sum() / 12)
        idle = sum(0 * parameter.sum() for parameter in model.get_submodule("classifier").parameters())
        return torch.stack(terms).mean() + idle

    update, _ = Client(simulation.task)(sent, simulation.shards[1], {})
    assert close(update.weights, weights_of(train(experiment, sent, 1, loss)), 1e-4)
    names = [name for name in update.weights if name.startswith("classifier.")]
    assert all(torch.equal(update.weights[name], sent.weights[name]) for name in names)


def test_the_cross_entropy_is_not_there() -> None:
    """Neither in training nor among what is recorded; regularizers are."""
    *_, record = run(*small("method=feddr", "model.head=etf", "regularizers=feddecorr", "rounds=1"))
    assert record.terms.keys() == {"dot_regression", "feature_distillation", "feddecorr"}


def test_it_learns_with_the_simplex() -> None:
    """By dot regression alone, too: better than chance on four classes."""
    words = ["method=feddr", "model.head=etf", "data.test=200", "data.train=400", "rounds=6", "partition=homogeneous"]
    for beta in (0.9, 1.0):
        *_, record = run(*small(*words, f"method.beta={beta}"))
        assert record.accuracy is not None
        assert record.accuracy > 0.4


def test_a_classifier_without_rows_is_refused() -> None:
    """There would be nothing to fit features to."""
    model = nn.Sequential(nn.Linear(3, 3), nn.Tanh())
    model.representation_layer = "1"  # type: ignore[assignment]  # modules take any attribute
    sent = Broadcast(1, weights_of(model), {}, {})
    context = ClientContext(client=0, broadcast=sent, memory={}, model=model, labels=torch.arange(3), classes=3)
    with pytest.raises(UserError, match=r"needs a classifier with weights for each class, not Tanh\(\)"):
        FedDr().terms(context)
