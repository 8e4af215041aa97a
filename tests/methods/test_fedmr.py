from dataclasses import replace

import pytest
import torch
from plain import close, info, send, train, update, weights_of
from small import small
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from feddecorr.core.messages import Server
from feddecorr.core.randomness import threads
from feddecorr.loss.decorrelation import feddecorr
from feddecorr.methods import METHODS
from feddecorr.methods.fedmr import decorrelation
from feddecorr.runs.pipeline import run
from feddecorr.server.federation import Simulation
from feddecorr.training.client import Client

STREAM = torch.Generator().manual_seed(0)


def correlations(z: Tensor) -> Tensor:
    """Return the correlation matrix, and zeros for features that do not vary."""
    centred = z - z.mean(0)
    norms = centred.norm(dim=0)
    unit = torch.where(norms > 1e-6, centred / norms.clamp(min=1e-6), torch.zeros_like(centred))
    return unit.T @ unit


@threads(1)
@pytest.mark.parametrize("variant", ["published", "released"])
def test_both_terms_written_out(variant: str) -> None:
    """Class by class and pair by pair, in a round whose server knows the prototypes of three of four classes."""
    words = ["method=fedmr", "method.intra=0.3", "method.inter=0.2", "method.margin=0.25", f"method.variant={variant}"]
    experiment = small(*words).experiment
    simulation = Simulation(experiment)
    begun = simulation.federation.start()
    prototypes = torch.randn(4, 16, generator=STREAM)
    known = torch.tensor([3.0, 0.0, 5.0, 1.0])
    shared = {"means": prototypes, "counts": known} if variant == "published" else {}
    sent = send(Server(begun.weights, begun.buffers, shared), 2)

    def loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        z = model.get_submodule("features")(x)
        parts = [z[y == label] for label in y.unique() if int((y == label).sum()) > 1]
        total = cross_entropy(model.get_submodule("classifier")(z), y)
        if variant == "released":
            whole = torch.zeros(())
            for part in parts:
                squares = (len(part) - 1) ** 2 * correlations(part).square()
                mean = (squares.sum() - squares.diagonal().sum()) / (16 * 15)
                whole = whole + mean
            return total + 0.3 * whole / sum(map(len, parts))
        total = total + 0.3 * torch.stack([correlations(part).square().sum() / 16**2 for part in parts]).mean()
        gaps = []
        for row, label in zip(z, y.tolist(), strict=True):
            for other in (0, 2, 3):
                if label not in (other, 1):
                    apart = (prototypes[label] - prototypes[other]).norm()
                    nearer = (row - prototypes[label]).norm() - (row - prototypes[other]).norm()
                    gaps.append((nearer + 0.25 * apart).clamp(min=0))
        return total + 0.2 * torch.stack(gaps).mean()

    found, _ = Client(simulation.task)(sent, simulation.shards[1], {})
    assert close(found.weights, weights_of(train(experiment, sent, 1, loss)), 2e-3)


def test_a_client_sends_the_means_of_its_classes() -> None:
    """Of the representations of all its images by the trained model in evaluation mode; zero where it has none."""
    simulation = Simulation(small("method=fedmr").experiment)
    found, _ = Client(simulation.task)(send(simulation.federation.start()), simulation.shards[1], {})
    images = simulation.shards[1].images
    model = simulation.task.build_model().eval()
    model.load_state_dict({**found.weights, **found.buffers})
    with torch.no_grad():
        z = model.get_submodule("features")(simulation.task.normalize(images.pixels))
    counts = torch.bincount(images.labels, minlength=4)
    assert torch.equal(found.extra["counts"], counts.float())
    for label, count in enumerate(counts.tolist()):
        expected = z[images.labels == label].mean(0) if count else torch.zeros(16)
        torch.testing.assert_close(found.extra["means"][label], expected, rtol=1e-4, atol=1e-4)


def test_the_server_merges_means_by_counts() -> None:
    """(1·2 + 3·6)/4 = 5; who claims more samples than examples counts for those; a class of nobody keeps its own."""
    method = METHODS.parse({"name": "fedmr"})
    before = {"means": torch.tensor([[9.0], [7.0]]), "counts": torch.tensor([1.0, 0.0])}
    weights = {"w": torch.ones(1)}

    def sent(client: int, examples: int, mean: float, count: float) -> object:
        extra = {"means": torch.tensor([[mean], [0.0]]), "counts": torch.tensor([count, 0.0])}
        return replace(update(client, examples, weights), extra=extra)

    server = Server(weights, {}, before)
    moved = method.aggregate(server, [sent(0, 1, 2.0, 1.0), sent(3, 3, 6.0, 1e9)], info(1, 3))  # type: ignore[list-item]
    assert moved.shared["means"].tolist() == [[5.0], [7.0]]
    assert moved.shared["counts"].tolist() == [4.0, 0.0]


def test_released_it_is_class_wise_feddecorr_and_sends_nothing_else() -> None:
    """On a client of one class, the regularizer of FedDecorr's authors, but for rounding."""
    words = ["partition=classes", "partition.per_client=1", "training.batch=8", "training.lr=0.001"]
    *_, method = run(*small("method=fedmr", "method.variant=released", "method.intra=0.3", *words))
    *_, regularized = run(*small("regularizers=feddecorr", "regularizers.feddecorr.beta=0.3", *words))
    assert method.terms.keys() == {"cross_entropy", "class_decorrelation"}
    assert method.terms["class_decorrelation"] == pytest.approx(regularized.terms["feddecorr"], rel=1e-3)


@pytest.mark.parametrize("published", [True, False])
def test_of_one_class_it_is_the_loss_of_feddecorr(published: bool) -> None:
    """Also where samples are fewer than features, and where a feature never varies; of single samples it is 0."""
    z = torch.randn(7, 9, generator=STREAM)
    z[:, 2] = 3.0
    found = decorrelation(z, torch.full((7,), 2), 4, published=published)
    expected = feddecorr(z, "paper") if published else feddecorr(z, "released")
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6)
    assert float(decorrelation(z, torch.arange(7), 7, published=published)) == 0
