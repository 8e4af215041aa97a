import math
import statistics

import pytest
import torch
from small import small

from feddecorr.methods.feduv import uniformity, variance
from feddecorr.runs.pipeline import run

STREAM = torch.Generator().manual_seed(3)


def test_uniformity_by_loops() -> None:
    """The mean Gaussian potential of all pairs, by the median of their squared distances."""
    z = torch.randn(6, 5, dtype=torch.float64, generator=STREAM)
    pairs = [(i, j) for i in range(6) for j in range(i)]
    squares = [sum((z[i, k].item() - z[j, k].item()) ** 2 for k in range(5)) for i, j in pairs]
    expected = statistics.mean(math.exp(-square / statistics.median(squares)) for square in squares)
    assert float(uniformity(z)) == pytest.approx(expected)


def test_uniformity_does_not_see_scale() -> None:
    """Only how points lie to each other; its gradient is orthogonal to them."""
    z = torch.randn(6, 5, dtype=torch.float64, generator=STREAM).requires_grad_()
    assert torch.allclose(uniformity(7 * z), uniformity(z))
    (gradient,) = torch.autograd.grad(uniformity(z), z)
    assert gradient.any()
    assert float((gradient * z.detach()).sum()) == pytest.approx(0, abs=1e-12)


def test_variance_by_loops() -> None:
    """The mean shortfall of each class's standard deviation below 1/√classes."""
    logits = torch.randn(6, 4, dtype=torch.float64, generator=STREAM)
    p = [[math.exp(row[c]) / sum(map(math.exp, row)) for c in range(4)] for row in logits.tolist()]
    expected = statistics.mean(max(0, 0.5 - statistics.stdev(row[c] for row in p)) for c in range(4))
    assert float(variance(logits)) == pytest.approx(expected)


def test_sure_predictions_of_every_class_once_are_as_varied_as_can_be_asked() -> None:
    """The bound 1/√classes is met exactly by one image of each class, predicted surely."""
    assert float(variance(1000 * torch.eye(7, dtype=torch.float64))) == pytest.approx(0, abs=1e-12)
    assert float(variance(900 * torch.eye(7, dtype=torch.float64)[[0] * 7])) == pytest.approx(7**-0.5)


@pytest.mark.parametrize("z", [torch.ones(1, 4), torch.ones(5, 4), torch.zeros(2, 4)])
def test_a_batch_of_one_or_of_equals_gives_finite_terms_on_the_graph(z: torch.Tensor) -> None:
    """With finite gradients."""
    z = z.clone().requires_grad_()
    for term in (uniformity(z), variance(z)):
        (gradient,) = torch.autograd.grad(term, z, retain_graph=True)
        assert term.isfinite()
        assert gradient.isfinite().all()


def test_each_weight_weighs_its_own_term() -> None:
    """Doubling one doubles it in the first step and leaves the other."""
    words = ["method=feduv", "training.epochs=1", "training.batch=1000"]
    names = ("representation_uniformity", "prediction_variance")
    plain = next(run(*small(*words, "method.uniformity=1", "method.variance=1"))).terms
    doubled = next(run(*small(*words, "method.uniformity=2", "method.variance=1"))).terms
    assert doubled[names[0]] == pytest.approx(2 * plain[names[0]])
    assert doubled[names[1]] == pytest.approx(plain[names[1]])
