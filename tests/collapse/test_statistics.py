from functools import reduce
from operator import add

import numpy as np
import pytest
import torch
from torch import Tensor

from feddecorr.collapse import statistics
from feddecorr.collapse.statistics import Batch, Moments, Statistics, Subsample, chunks, gather
from feddecorr.errors import UserError


def draw(n: int = 300, d: int = 7, seed: int = 0) -> tuple[Tensor, Tensor]:
    stream = torch.Generator().manual_seed(seed)
    return torch.randn(n, d, generator=stream, dtype=torch.float64) + 3, torch.randint(4, (n,), generator=stream)


def scatter(z: Tensor) -> Tensor:
    centred = z.double() - z.double().mean(0)
    return centred.T @ centred


def test_moments_of_parts_add_up_to_those_of_the_whole() -> None:
    """However samples are cut into parts, the sum of the parts' moments is the whole's."""
    z, _ = draw()
    parts = Moments.of(z[:13]) + Moments.of(z[13:14]) + Moments.of(z[14:])
    whole = Moments.of(z)
    assert parts.count == whole.count
    torch.testing.assert_close(parts.mean, whole.mean, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(parts.scatter, whole.scatter, rtol=1e-12, atol=1e-10)


def test_the_covariance_is_that_of_numpy() -> None:
    """With 1/N, as in the paper."""
    z, _ = draw()
    np.testing.assert_allclose(Moments.of(z).covariance.numpy(), np.cov(z.numpy().T, bias=True), rtol=1e-12)


@pytest.mark.parametrize("mean", [1e4, 1e6])
def test_large_means_cost_no_accuracy(mean: float) -> None:
    """Only the rounding of the shifted samples themselves is lost."""
    z, _ = draw(1000)
    shifted = reduce(add, map(Moments.of, (z + mean).split(100)))
    exact = Moments.of((z + mean) - mean).covariance
    torch.testing.assert_close(shifted.covariance, exact, rtol=0, atol=1e-10)


def test_a_constant_feature_has_exactly_no_variance() -> None:
    """Also after merging: a dead feature is recognized by zero, not by a small number."""
    z, _ = draw()
    z[:, 2] = 0.1
    merged = reduce(add, map(Moments.of, z.split(17)))
    assert float(merged.scatter[2].abs().max()) == 0


def test_samples_are_left_as_they_are() -> None:
    """Nothing is written to the representations, in whatever precision they come."""
    z, labels = draw()
    before = z.clone()
    Statistics.of(z, labels)
    torch.testing.assert_close(z, before, rtol=0, atol=0)


@pytest.mark.parametrize("d", [3, 7, 90])
def test_classes_are_kept_exactly_in_parts_and_small(d: int) -> None:
    """The scatter within each class is the naive one, by factors of no more than 2·d rows."""
    z, labels = draw(d=d)
    found = reduce(add, (Statistics.of(*pair) for pair in zip(z.split(50), labels.split(50), strict=True)))
    assert found.classes is not None
    for form in (found, found.sealed()):
        assert form.classes is not None
        for label, factor in form.classes.items():
            mine = z[labels == label]
            assert factor.rows is not None
            assert factor.count == len(mine)
            assert len(factor.rows) <= 2 * d
            torch.testing.assert_close(factor.rows.T @ factor.rows, scatter(mine), rtol=1e-10, atol=1e-9)
            assert factor.trace == pytest.approx(float(scatter(mine).trace()))


def test_sealed_statistics_depend_on_nothing_but_the_covariance() -> None:
    """Other samples of the same mean and covariance leave the same, up to signs: no features are shared."""
    z, _ = draw(20, 5)
    mean = z.mean(0)
    ones = torch.ones(20, 1, dtype=torch.float64) / 20**0.5
    basis = torch.linalg.qr(torch.cat([ones, torch.eye(20, dtype=torch.float64)[:, :19]], 1)).Q
    inner = torch.linalg.qr(torch.randn(19, 19, generator=torch.Generator().manual_seed(4), dtype=torch.float64)).Q
    keep = basis[:, :1] @ basis[:, :1].T + basis[:, 1:] @ inner @ basis[:, 1:].T  # orthogonal, and keeps the mean
    others = keep @ (z - mean) + mean
    labels = torch.zeros(20, dtype=torch.int64)
    one, other = (Statistics.of(each, labels).sealed().classes for each in (z, others))
    assert one is not None
    assert other is not None
    assert not torch.allclose(z, others)
    assert one[0].rows is not None
    assert other[0].rows is not None
    torch.testing.assert_close(one[0].rows.abs(), other[0].rows.abs(), rtol=1e-9, atol=1e-9)


def test_classes_without_room_keep_their_means(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the memory that classes may take, counts, means and traces stay exact, and rows are dropped."""
    monkeypatch.setattr(statistics, "CLASS_MEMORY", 100)
    z, labels = draw()
    found = Statistics.of(z[:100], labels[:100]) + Statistics.of(z[100:], labels[100:])
    assert found.classes is not None
    for label, factor in found.classes.items():
        assert factor.rows is None
        torch.testing.assert_close(factor.mean, z[labels == label].mean(0))
        assert factor.trace == pytest.approx(float(scatter(z[labels == label]).trace()))


@pytest.mark.parametrize("size", [1, 7, 64, 300])
def test_the_size_of_batches_does_not_matter_to_the_last_bit(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches are cut anew before they are summed."""
    monkeypatch.setattr(statistics.chunks, "__defaults__", (128,))
    z, labels = draw()
    whole = gather([Batch(z, labels)]).statistics.moments
    parts = gather(map(Batch, z.split(size), labels.split(size))).statistics.moments
    assert torch.equal(whole.scatter, parts.scatter)
    assert torch.equal(whole.mean, parts.mean)


def test_chunks_hold_all_samples_in_order() -> None:
    """Nothing is lost or moved when the stream is cut anew."""
    z, labels = draw(100)
    cut = list(chunks(map(Batch, z.split(9), labels.split(9)), 32))
    assert [len(each.z) for each in cut] == [32, 32, 32, 4]
    assert torch.equal(torch.cat([each.z for each in cut]), z)
    assert torch.equal(torch.cat([each.labels for each in cut if each.labels is not None]), labels)


def test_the_sample_is_every_kth_and_fits() -> None:
    """However many samples come, those that are kept are evenly spaced and have room."""
    z = torch.arange(1000.0)[:, None].repeat(1, 4)
    sample = Subsample(room=4 * 70)
    for part in z.split(33):
        sample.add(Batch(part))
    kept = sample.batch.z[:, 0]
    assert sample.step == 16
    assert torch.equal(kept, torch.arange(0.0, 1000.0, 16))
    assert sum(part.z.untyped_storage().nbytes() for part in sample._parts) <= 4 * 4 * 70  # nothing else is held


def test_what_is_no_representation_is_refused() -> None:
    """Shapes, kinds of numbers, NaN, infinity, and labels that do not fit are named."""
    z, labels = draw(10)
    with pytest.raises(UserError, match=r"\(samples, features\), not \(10,\)"):
        gather([Batch(z[:, 0])])
    with pytest.raises(UserError, match="floating-point"):
        gather([Batch(z.long())])
    with pytest.raises(UserError, match="10 samples need as many labels"):
        gather([Batch(z, labels[:9])])
    with pytest.raises(UserError, match="2 of 10 samples"):
        gather([Batch(torch.cat([z[:8], z[8:] * float("nan")]))])
    with pytest.raises(UserError, match="no samples"):
        gather([])
    with pytest.raises(UserError, match="some have none"):
        gather([Batch(z, labels), Batch(z)])
    with pytest.raises(UserError, match=r"number of features: \[6, 7\]"):
        gather([Batch(z), Batch(z[:, :6])])
    with pytest.raises(UserError, match="7 features cannot be merged with 6"):
        Statistics.of(z) + Statistics.of(z[:, :6])
