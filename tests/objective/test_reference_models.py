import pytest
import torch
from small import simulate
from torch import nn

from feddecorr.collapse.representation import capture_representations
from feddecorr.core.messages import Broadcast
from feddecorr.core.randomness import threads
from feddecorr.objective.reference_models import Reference, RoundReference
from feddecorr.objective.terms import ClientContext, Pass, Places


@threads(1)
@pytest.mark.parametrize("model", ["convnet", "mlp", "mobilenetv2", "resnet20"])
def test_a_reference_is_the_network_in_evaluation_mode(model: str) -> None:
    """Its representations and logits are the network's, although BatchNorm is folded into the convolutions."""
    words = [f"model={model}"] + (["model.widths=[8,16]"] if model == "convnet" else [])
    simulation = simulate(*words)
    network = simulation.task.build_model().train()
    x = simulation.dataset.normalize(simulation.dataset.train.pixels[:16])
    for _ in range(3):
        network(x)  # so that the statistics are not the first ones
    z, logits = Reference(network, network.state_dict())(x)
    with capture_representations(network.eval()) as seen:
        expected = network(x)
    assert torch.allclose(z, seen.z, rtol=1e-3, atol=1e-4)
    assert torch.allclose(logits, expected, rtol=1e-3, atol=1e-4)
    assert not z.requires_grad
    assert not logits.requires_grad


def test_a_reference_is_a_copy() -> None:
    """Training goes on without it, and looking through it changes no statistics."""
    simulation = simulate()
    network = simulation.task.build_model().train()
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    reference = Reference(network, network.state_dict())
    x = simulation.dataset.normalize(simulation.dataset.train.pixels[:16])
    z, _ = reference(x)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(1)
    assert torch.equal(reference(x)[0], z)
    assert network.training
    assert all(torch.equal(network.state_dict()[name], before[name]) for name, _ in network.named_buffers())


@threads(1)
@pytest.mark.parametrize("layer", [None, "features.0", "features.0.0", "features.0.1", "features.0.3"])
def test_any_layer_can_be_looked_at(layer: str | None) -> None:
    """Before, between, at and after what is folded, what it takes in is what the network gives it."""
    network = simulate().task.build_model().train()
    network.features = nn.Sequential(nn.Sequential(*network.get_submodule("features").children()))
    x = torch.randn(16, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    network(x)
    z, _ = Reference(network, layer=layer)(x)
    with capture_representations(network.eval(), layer) as seen:
        network(x)
    assert torch.allclose(z, seen.z, rtol=1e-3, atol=1e-4)


def test_twins_share_tensors_and_see_the_same() -> None:
    """Each catches what goes through itself; together they take the memory of one."""
    network = simulate().task.build_model()
    one = Reference(network)
    other = one.twin()
    x = torch.randn(16, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    assert torch.equal(one(x)[0], other(x)[0])
    pairs = zip(one._model.parameters(), other._model.parameters(), strict=True)
    assert all(mine is theirs for mine, theirs in pairs)
    assert one._model is not other._model


def test_twins_that_are_watched_at_once_see_each_its_own() -> None:
    """Batch after batch, as when each is looked at by itself."""
    one = Reference(simulate().task.build_model())
    other = one.twin()
    batches = torch.randn(4, 16, 1, 8, 8, generator=torch.Generator().manual_seed(0)).unbind()
    with one.watched() as first, other.watched() as second:
        found = [(first if place % 2 else second)(x) for place, x in enumerate(batches)]
    for x, (z, logits) in zip(batches, found, strict=True):
        assert torch.equal(z, one(x)[0])
        assert torch.equal(logits, one(x)[1])


class Standardized(nn.Conv2d):
    """A convolution that scales its weights: multiplying them changes nothing."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Convolve with weights of length one."""
        found: torch.Tensor = self._conv_forward(x, self.weight / self.weight.norm(), self.bias)
        return found


def test_derived_layers_are_not_folded() -> None:
    """They may compute something else than what they are derived from."""
    torch.manual_seed(0)
    norm = nn.BatchNorm2d(4)
    network = nn.Sequential(Standardized(1, 4, 3), norm, nn.Flatten(), nn.Linear(16, 3))
    x = torch.randn(5, 1, 4, 4)
    network(x)
    _, logits = Reference(network)(x)
    assert torch.equal(logits, network.eval()(x))


@pytest.mark.parametrize("statistics", [False, True])
def test_layers_are_folded_only_where_nothing_is_lost(statistics: bool) -> None:
    """Not a BatchNorm that uses the batch's statistics always, nor one whose input is the representation."""
    torch.manual_seed(0)
    norm = nn.BatchNorm2d(4, track_running_stats=statistics)
    network = nn.Sequential(nn.Conv2d(1, 4, 3), norm, nn.Flatten(), nn.Linear(16, 3))
    network.representation_layer = "1"  # type: ignore[assignment]  # modules take any attribute
    x = torch.randn(5, 1, 4, 4)
    network(x)
    z, logits = Reference(network, network.state_dict())(x)
    with capture_representations(network.eval()) as seen:
        assert torch.allclose(logits, network(x))
    assert torch.allclose(z, seen.z)


def test_a_layer_whose_input_is_seen_is_not_written_over() -> None:
    """Neither where it is the representation, nor where the same ReLU stands elsewhere, too."""
    torch.manual_seed(0)
    bend = nn.ReLU()

    class Around(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.path = nn.Sequential(nn.Linear(6, 6), bend)
            self.bend = bend
            self.out = nn.Sequential(nn.Linear(6, 6), nn.Identity(), nn.ReLU(), nn.Linear(6, 3))
            self.representation_layer = "out.2"

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            half = self.path(x) - 1
            out: torch.Tensor = self.out(half + self.bend(half))
            return out

    network, x = Around(), torch.randn(5, 6)
    z, logits = Reference(network, network.state_dict())(x)
    with capture_representations(network) as seen:
        assert torch.equal(logits, network(x))
    assert torch.equal(z, seen.z)
    assert bool((z < 0).any())


class Counting(nn.Module):
    """Counts its images as they pass."""

    def __init__(self) -> None:
        super().__init__()
        self.images = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Hand on."""
        self.images += len(x)
        return x


def a_pass(x: torch.Tensor, places: torch.Tensor | None) -> Pass:
    chosen = x if places is None else x[places]
    return Pass(chosen, chosen, chosen, chosen, {}, places=None if places is None else Places(places, places))


def reference_of_round(*layers: nn.Module) -> tuple[RoundReference, Counting, torch.Tensor]:
    torch.manual_seed(0)
    network = nn.Sequential(Counting(), *layers, nn.Linear(6, 3))
    nothing = Broadcast(1, {}, {}, {})
    labels = torch.zeros(10, dtype=torch.long)
    context = ClientContext(client=0, broadcast=nothing, memory={}, model=network, labels=labels, classes=3)
    reference = RoundReference(context, network.state_dict())
    (counting,) = [module for module in reference._model.modules() if isinstance(module, Counting)]
    return reference, counting, torch.randn(10, 6)


def test_an_image_is_looked_at_once_in_a_round() -> None:
    """However often it comes and with which others, its answer is the reference's."""
    reference, counting, x = reference_of_round(nn.Linear(6, 6), nn.ReLU())
    z, logits = reference(x)
    counting.images = 0
    for epoch in range(3):
        for places in torch.randperm(10, generator=torch.Generator().manual_seed(epoch)).split(4):
            torch.testing.assert_close(reference.logits(a_pass(x, places)), logits[places])
    assert counting.images == 10
    for places in torch.arange(10).split(5):
        torch.testing.assert_close(reference.z(a_pass(x, places)), z[places])
    assert counting.images == 20  # representations were not asked for before


def test_an_image_that_changes_is_looked_at_each_time() -> None:
    reference, counting, x = reference_of_round()
    for _ in range(3):
        reference.z(a_pass(x, None))
    assert counting.images == 30


def test_an_image_whose_answer_depends_on_others_is_looked_at_each_time() -> None:
    reference, counting, x = reference_of_round(nn.BatchNorm1d(6, track_running_stats=False))
    for places in (torch.arange(10), torch.arange(5)):
        assert torch.equal(reference.z(a_pass(x, places)), reference(x[places])[0])
    assert counting.images == 30


def test_answers_that_would_fill_the_memory_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("feddecorr.objective.reference_models.MOST_KEPT", 10 * 3 * 4)
    reference, counting, x = reference_of_round()
    for _ in range(3):
        reference.logits(a_pass(x, torch.arange(10)))
    assert counting.images == 10
    for _ in range(3):
        reference.z(a_pass(x, torch.arange(10)))
    assert counting.images == 40
