from dataclasses import replace

import pytest
import torch
from plain import send, update
from small import simulate, small
from torch.nn.functional import cosine_similarity, normalize

from feddecorr.core.messages import RoundInfo, Server
from feddecorr.errors import UserError
from feddecorr.methods import METHODS
from feddecorr.training.client import Client

NAME = "classifier.weight"


def test_clients_train_all_but_the_prototypes() -> None:
    """As FedAvg does under the same head, to the last bit: the scale too, and no prototype."""
    simulation = simulate("method=fednh", "training.weight_decay=0.1")
    sent = send(simulation.federation.start())
    mine, _ = Client(simulation.task)(sent, simulation.shards[1], {})
    plain = simulate("model.head=prototypes", "training.weight_decay=0.1")
    theirs, _ = Client(plain.task)(send(plain.federation.start()), plain.shards[1], {})
    assert all(torch.equal(mine.weights[name], theirs.weights[name]) for name in theirs.weights)
    assert torch.equal(mine.weights[NAME], sent.weights[NAME])
    assert not torch.equal(mine.weights["classifier.scale"], sent.weights["classifier.scale"])


def test_a_client_sends_the_directions_of_its_class_means() -> None:
    """Means of representations at length 1, put to length 1; zero where it has no images."""
    simulation = simulate("method=fednh")
    found, _ = Client(simulation.task)(send(simulation.federation.start()), simulation.shards[1], {})
    images = simulation.shards[1].images
    model = simulation.task.build_model().eval()
    model.load_state_dict({**found.weights, **found.buffers})
    with torch.no_grad():
        z = normalize(model.get_submodule("features")(simulation.task.normalize(images.pixels)))
    for label, count in enumerate(torch.bincount(images.labels, minlength=4).tolist()):
        expected = normalize(z[images.labels == label].mean(0), dim=0) if count else torch.zeros(16)
        torch.testing.assert_close(found.extra["means"][label], expected, rtol=1e-4, atol=1e-4)
        assert found.extra["counts"][label] == count


def test_prototypes_follow_the_means_slowly_and_stay_at_length_1() -> None:
    """From (1, 0) with ρ = 0.75 towards (3·(0, 1) + 1·(1, 0))/4 at length 1; a class that nobody has stays."""
    method = METHODS.parse({"name": "fednh", "smoothing": 0.75})
    server = Server({NAME: torch.tensor([[1.0, 0.0], [0.0, 1.0]]), "w": torch.zeros(1)}, {})

    def sent(client: int, examples: int, mean: list[float]) -> object:
        extra = {"means": torch.tensor([mean, [0.0, 0.0]]), "counts": torch.tensor([float(examples), 0.0])}
        return replace(update(client, examples, {**server.weights, "w": torch.ones(1)}), extra=extra)

    info = RoundInfo(1, 0, torch.tensor([3, 1]).numpy(), classifier=NAME)
    moved = method.aggregate(server, [sent(4, 3, [0.0, 1.0]), sent(2, 1, [1.0, 0.0])], info)  # type: ignore[list-item]
    towards = normalize(torch.tensor([0.25, 0.75]), dim=0)
    expected = normalize(0.75 * torch.tensor([1.0, 0.0]) + 0.25 * towards, dim=0)
    torch.testing.assert_close(moved.weights[NAME][0], expected)
    assert moved.weights[NAME][1].tolist() == [0.0, 1.0]
    assert moved.weights["w"].tolist() == [1.0]


def test_first_prototypes_are_as_far_apart_as_can_be_or_orthonormal_as_released() -> None:
    """Any two have the cosine −1/3 of four classes; released, 0."""
    for variant, cosine in (("published", -1 / 3), ("released", 0.0)):
        rows = simulate("method=fednh", f"method.variant={variant}").federation.start().weights[NAME]
        expected = torch.full((4, 4), cosine).fill_diagonal_(1.0)
        torch.testing.assert_close(cosine_similarity(rows[:, None], rows[None], dim=2), expected, rtol=0, atol=1e-5)


def test_it_has_its_own_head() -> None:
    assert small("method=fednh").experiment.model.head == "prototypes"
    with pytest.raises(UserError, match=r"fednh needs model\.head=prototypes, not etf"):
        small("method=fednh", "model.head=etf")
    with pytest.raises(UserError, match=r"looks at the classifier, which training\.trainable leaves out"):
        simulate("method=fednh", "training.trainable=features.*").federation.start()
