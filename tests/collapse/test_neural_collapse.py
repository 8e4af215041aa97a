import math

import numpy as np
import pytest
import torch
from sklearn.neighbors import NearestCentroid
from torch import Tensor

from feddecorr.collapse.neural_collapse import ClassMeasures, disagreement, measure_classes
from feddecorr.collapse.statistics import Batch, Statistics


def draw(n: int = 300, d: int = 8, classes: int = 4) -> tuple[Tensor, Tensor]:
    stream = torch.Generator().manual_seed(0)
    labels = torch.randint(classes, (n,), generator=stream)
    means = 2 * torch.randn(classes, d, generator=stream, dtype=torch.float64)
    return means[labels] + torch.randn(n, d, generator=stream, dtype=torch.float64), labels


def simplex(classes: int = 4, d: int = 6) -> Tensor:
    """Return class means of neural collapse: equally long, at equal and widest angles."""
    means = torch.zeros(classes, d, dtype=torch.float64)
    means[:, :classes] = torch.eye(classes) - 1 / classes
    return means


def measure(z: Tensor, labels: Tensor, classifier: Tensor | None = None) -> ClassMeasures:
    return measure_classes(Statistics.of(z, labels), classifier)


def test_neural_collapse_makes_every_measure_of_it_zero() -> None:
    """Samples at their class means, the means a simplex, the classifier the means: NC1 to NC3 vanish."""
    labels = torch.arange(4).repeat(25)
    found = measure(simplex()[labels] + 5, labels, 0.3 * simplex())
    for value in (found.nc1_variability, found.nc2_norm_variation, found.nc2_cosine_variation, found.nc2_cosine_gap):
        assert value == pytest.approx(0, abs=1e-12)
    assert found.nc3_duality_gap == pytest.approx(0, abs=1e-12)
    assert found.within_class_share == pytest.approx(0, abs=1e-12)
    assert found.per_class_effective_rank == dict.fromkeys("0123", 0.0)
    angle = math.degrees(math.acos(-1 / 3))
    expected = angle * (1 - np.eye(4))
    np.testing.assert_allclose(np.array(found.class_mean_angles), expected, atol=1e-5)


def test_nc1_is_the_naive_formula() -> None:
    """tr(Σ_W Σ_B⁺)/C by numpy's pseudo-inverse, with classes of unequal size."""
    z, labels = draw()
    found = measure(z, labels)
    x, y = z.numpy(), labels.numpy()
    means = np.stack([x[y == label].mean(0) for label in range(4)])
    within = (x - means[y]).T @ (x - means[y]) / len(x)
    gaps = means - means.mean(0)
    between = gaps.T @ gaps / 4
    assert found.nc1_variability == pytest.approx(np.trace(within @ np.linalg.pinv(between)) / 4)
    total = ((x - x.mean(0)) ** 2).sum()
    assert found.within_class_share == pytest.approx(((x - means[y]) ** 2).sum() / total)


def test_nc2_and_nc3_are_the_naive_formulas() -> None:
    """Norms, cosines and the gap to the classifier, written out by loops."""
    z, labels = draw()
    weight = torch.randn(4, 8, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    found = measure(z, labels, weight)
    means = np.stack([z[labels == label].mean(0).numpy() for label in range(4)])
    gaps = means - means.mean(0)
    norms = [float(np.linalg.norm(gap)) for gap in gaps]
    cosines = [gaps[i] @ gaps[j] / (norms[i] * norms[j]) for i in range(4) for j in range(i)]
    assert found.nc2_norm_variation == pytest.approx(np.std(norms) / np.mean(norms))
    assert found.nc2_cosine_variation == pytest.approx(np.std(cosines))
    assert found.nc2_cosine_gap == pytest.approx(np.mean(np.abs(np.array(cosines) + 1 / 3)))
    rows = (weight - weight.mean(0)).numpy()
    gap = rows / np.linalg.norm(rows) - gaps / np.linalg.norm(gaps)
    assert found.nc3_duality_gap == pytest.approx(np.linalg.norm(gap))


def test_ranks_within_classes_are_those_of_their_samples() -> None:
    """Each class by itself, from its own singular values."""
    z, labels = draw(60, 30)
    found = measure(z, labels)
    assert found.per_class_effective_rank is not None
    assert found.per_class_samples is not None
    for label in range(4):
        mine = z[labels == label].numpy()
        values = np.linalg.svd(mine - mine.mean(0), compute_uv=False) ** 2
        shares = values[:-1] / values.sum()
        expected = math.exp(-(shares * np.log(shares)).sum())
        assert found.per_class_effective_rank[str(label)] == pytest.approx(expected)
        assert found.per_class_samples[str(label)] == len(mine)


def test_nc4_is_the_disagreement_with_scikit_learns_nearest_centroid() -> None:
    """Decisions are compared with the classifier by the nearest class mean, under a large common mean, too."""
    z, labels = draw()
    z = z + 100
    decisions = torch.randint(4, (300,), generator=torch.Generator().manual_seed(2))
    nearest = NearestCentroid().fit(z.numpy(), labels.numpy()).predict(z.numpy())
    statistics = Statistics.of(z, labels)
    assert statistics.classes is not None
    found = disagreement(Batch(z, labels, decisions), statistics.classes, statistics.moments.mean)
    assert found == pytest.approx((nearest != decisions.numpy()).mean())
    same = disagreement(Batch(z, labels, torch.from_numpy(nearest)), statistics.classes, statistics.moments.mean)
    assert same == 0


def test_a_single_class_has_nothing_between() -> None:
    """What takes two classes is None, and nothing is divided by zero."""
    z, _ = draw()
    found = measure(z, torch.zeros(300, dtype=torch.int64), torch.ones(1, 8))
    assert found.classes == 1
    assert found.nc1_variability is found.nc2_cosine_gap is found.nc2_norm_variation is found.nc3_duality_gap is None
    assert found.within_class_share == pytest.approx(1)


def test_labels_that_the_classifier_does_not_know_leave_out_nc3() -> None:
    """A classifier for other classes, or of another width, is not compared."""
    z, labels = draw()
    assert measure(z, labels + 1, torch.ones(4, 8)).nc3_duality_gap is None
    assert measure(z, labels, torch.randn(4, 9)).nc3_duality_gap is None
