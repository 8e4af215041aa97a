import pytest
import torch
from torch import nn

from feddecorr.collapse.measures import Principal, classifier_weight, measure_weights
from feddecorr.collapse.statistics import Moments


def stretched() -> Principal:
    """Return principal directions that are the axes, the first the strongest."""
    noise = torch.randn(200, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    scores = torch.linalg.qr(noise - noise.mean(0)).Q
    return Principal(Moments.of(scores * torch.tensor([6.0, 5.0, 4.0, 3.0, 2.0, 1.0], dtype=torch.float64)))


def test_layers_have_the_singular_values_of_their_matrices() -> None:
    """A convolution is the matrix from all inputs of a position to its outputs; vectors are left out."""
    convolution = nn.Conv2d(3, 5, 2)
    model = nn.Sequential(convolution, nn.BatchNorm2d(5), nn.Flatten(), nn.Linear(6, 4))
    found = measure_weights(model, None, stretched())
    assert found.layer_singular_values is not None
    assert list(found.layer_singular_values) == ["0", "3"]
    matrix = convolution.weight.detach().reshape(5, 12).double()
    expected = torch.linalg.svdvals(matrix).tolist()
    assert found.layer_singular_values["0"] == pytest.approx(expected)


@pytest.mark.parametrize(("axes", "share"), [((0, 1), 1.0), ((4, 5), 0.0)])
def test_a_classifier_looks_along_the_strongest_directions_or_across(axes: tuple[int, int], share: float) -> None:
    """Three classes along the first two directions are fully aligned; along the last two not at all."""
    weight = torch.zeros(3, 6, dtype=torch.float64)
    weight[:, axes] = torch.tensor([[1.0, 0.0], [-0.5, 0.8], [-0.5, -0.8]], dtype=torch.float64)
    found = measure_weights(nn.Identity(), weight + 7, stretched())
    assert found.classifier_alignment == pytest.approx(share, abs=1e-12)


def test_a_classifier_of_another_width_is_not_aligned_with_anything() -> None:
    """There is no number, rather than a wrong one."""
    found = measure_weights(nn.Identity(), torch.ones(3, 9), stretched())
    assert found.classifier_alignment is None
    assert found.classifier_alignments is None


def test_the_weight_of_a_classifier_has_a_row_for_each_output() -> None:
    """Linear layers and 1×1 convolutions have one; layers over several positions, and without weights, none."""
    linear, point = classifier_weight(nn.Linear(6, 4)), classifier_weight(nn.Conv2d(6, 4, 1))
    assert linear is not None
    assert point is not None
    assert linear.shape == point.shape == (4, 6)
    assert classifier_weight(nn.Conv2d(6, 4, 3)) is classifier_weight(nn.ReLU()) is None
