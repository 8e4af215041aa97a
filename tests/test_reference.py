import pytest
import torch
from small import small
from torch import nn

from feddecorr.federation import Simulation
from feddecorr.reference import Reference
from feddecorr.representation import capture_representations
from feddecorr.threads import threads


@threads(1)
@pytest.mark.parametrize("model", ["convnet", "mlp", "mobilenetv2", "resnet20"])
def test_a_reference_is_the_network_in_evaluation_mode(model: str) -> None:
    """Its representations and logits are the network's, although BatchNorm is folded into the convolutions."""
    words = [f"model={model}"] + (["model.widths=[8,16]"] if model == "convnet" else [])
    simulation = Simulation(small(*words))
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
    simulation = Simulation(small())
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
