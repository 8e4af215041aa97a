import pytest
import torch
from torch import Tensor, nn

from feddecorr.collapse import spectrum
from feddecorr.collapse.diagnosis import layer_ranks


def rank(z: Tensor) -> float:
    return spectrum.effective_rank(spectrum.singular_values(torch.cov(z.double().T, correction=0)))


def batches(x: Tensor) -> list[tuple[Tensor, Tensor]]:
    return [(part, torch.zeros(len(part))) for part in x.split(7)]


def test_ranks_are_those_of_what_each_layer_takes_in() -> None:
    """Against the network taken apart; convolutions by the mean over their positions; the images' own are left out."""
    torch.manual_seed(0)
    first, second, last = nn.Conv2d(1, 4, 3), nn.Conv2d(4, 6, 3), nn.Linear(6 * 16, 3)
    model = nn.Sequential(first, nn.BatchNorm2d(4), nn.ReLU(), second, nn.ReLU(), nn.Flatten(), last).train()
    x = torch.randn(30, 1, 8, 8)
    found = layer_ranks(model, batches(x))
    assert model.training
    with torch.no_grad():
        inner = model.eval()[:3](x)
        flat = model[3:6](inner)
    assert found == {"3": pytest.approx(rank(inner.mean((2, 3)))), "6": pytest.approx(rank(flat))}


def test_layers_that_are_never_called_are_not_there() -> None:
    class Skipping(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.used, self.spare, self.head = nn.Linear(5, 4), nn.Linear(4, 4), nn.Linear(4, 2)

        def forward(self, x: Tensor) -> Tensor:
            out: Tensor = self.head(self.used(x).relu())
            return out

    assert list(layer_ranks(Skipping(), batches(torch.randn(20, 5)))) == ["head"]
    assert layer_ranks(nn.Linear(5, 2), batches(torch.randn(20, 5))) == {}
