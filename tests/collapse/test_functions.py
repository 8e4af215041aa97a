"""Each measure by its law and by an independent computation in numpy."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

import feddecorr
from feddecorr import UserError
from feddecorr.collapse.neural_collapse import disagreement, measure_classes

STREAM = torch.Generator().manual_seed(0)
Z = torch.randn(60, 6, generator=STREAM, dtype=torch.float64) @ torch.randn(6, 6, generator=STREAM).double() + 2
Y = torch.arange(60) % 4
HEAD = torch.randn(4, 6, generator=STREAM, dtype=torch.float64)
TURN = torch.linalg.qr(torch.randn(6, 6, generator=STREAM, dtype=torch.float64)).Q

RANKS: dict[str, Callable[[Tensor], Tensor]] = {
    "effective_rank": feddecorr.effective_rank,
    "of features": lambda z: feddecorr.effective_rank(z, of="features"),
    "rankme": feddecorr.rankme,
    "participation_ratio": feddecorr.participation_ratio,
    "stable_rank": feddecorr.stable_rank,
}
MEASURES: dict[str, Callable[[Tensor], Tensor]] = {
    **RANKS,
    "alpha_req": feddecorr.alpha_req,
    "lidar": lambda z: feddecorr.lidar(z, Y),
    "cdnv": lambda z: feddecorr.cdnv(z, Y),
    "alignment": lambda z: feddecorr.alignment(z, z.flip(max(-2, -z.ndim))),
    "uniformity": feddecorr.uniformity,
    "cka": lambda z: feddecorr.cka(z, z.square()),
    **{
        f"neural_collapse of {subject}": lambda z, subject=subject: sum(  # type: ignore[misc]
            value for name, value in feddecorr.neural_collapse(z, Y, HEAD).items() if name.startswith(subject)
        )
        for subject in ("nc1", "nc2", "nc3")
    },
}


def isotropic(n: int, d: int) -> Tensor:
    noise = torch.randn(n, d, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    scaled: Tensor = torch.linalg.qr(noise - noise.mean(0)).Q * n**0.5
    return scaled


def entropy_rank(values: NDArray[np.floating]) -> float:
    shares = values[values > 0] / values.sum()
    return float(np.exp(-(shares * np.log(shares)).sum()))


@pytest.mark.parametrize("measure", MEASURES.values(), ids=MEASURES)
class TestEveryMeasure:
    def test_takes_leading_dimensions_one_by_one(self, measure: Callable[[Tensor], Tensor]) -> None:
        both = torch.stack([Z, Z**3]).unflatten(0, (1, 2))
        torch.testing.assert_close(measure(both), torch.stack([measure(Z), measure(Z**3)])[None])

    def test_has_the_gradient_of_its_differences(self, measure: Callable[[Tensor], Tensor]) -> None:
        assert torch.autograd.gradcheck(measure, (Z.clone().requires_grad_(),))

    def test_takes_arrays_and_single_precision_and_counts_in_double(self, measure: Callable[[Tensor], Tensor]) -> None:
        single = measure(Z.float())
        assert (single.dtype, single.shape) == (torch.float64, ())
        torch.testing.assert_close(single, measure(Z), rtol=1e-4, atol=1e-6)

    def test_knows_no_basis(self, measure: Callable[[Tensor], Tensor]) -> None:
        if measure not in (
            MEASURES["cka"],
            MEASURES["neural_collapse of nc3"],
        ):  # whose other argument comes from the basis
            torch.testing.assert_close(measure(Z @ TURN), measure(Z))

    def test_refuses_what_are_no_features(self, measure: Callable[[Tensor], Tensor]) -> None:
        for wrong, said in [
            (Z[0], "shape"),
            (Z.long(), "floating"),
            (Z * torch.nan, "NaN"),
            (Z[:1], "one sample"),
            (Z * 1e200, "too large"),
            (Z * 1e-200, "too small"),
            (Z[0, 0], "shape"),
        ]:
            with pytest.raises(UserError, match=said):
                measure(wrong)


def test_arrays_of_any_layout_are_features_and_labels(recwarn: pytest.WarningsRecorder) -> None:
    """In Fortran's order, backwards, of another machine's byte order, and those that may not be written to."""
    x, y = Z.numpy(), Y.numpy()
    fixed = np.frombuffer(x.tobytes()).reshape(x.shape)
    for same in (np.asfortranarray(x), x[::-1].copy()[::-1], x.astype(">f8"), fixed):
        torch.testing.assert_close(feddecorr.rankme(same), feddecorr.rankme(Z))
        torch.testing.assert_close(feddecorr.cka(same, x**2), feddecorr.cka(Z, Z**2))
    for labels in (y[::-1].copy()[::-1], y.astype(">i4"), y.astype(np.uint16), y.astype(float), y.tolist()):
        torch.testing.assert_close(feddecorr.cdnv(Z, labels), feddecorr.cdnv(Z, Y))
        assert feddecorr.probe(x, labels, x, labels) == feddecorr.probe(Z, Y, Z, Y)
    assert not recwarn.list


@pytest.mark.parametrize("measure", RANKS.values(), ids=RANKS)
def test_ranks_of_known_spectra(measure: Callable[[Tensor], Tensor]) -> None:
    """Equal variance in k of d directions is k; scale does not matter; of a total collapse gradients are finite."""
    flat = isotropic(80, 3) @ TURN[:3]
    assert float(measure(flat)) == pytest.approx(3, rel=1e-4)
    assert float(measure(1e-3 * flat)) == pytest.approx(3, rel=1e-4)
    for collapsed in (torch.zeros(5, 4), torch.full((5, 4), 0.1), torch.outer(torch.arange(5.0), torch.arange(4.0))):
        z = collapsed.clone().requires_grad_()
        rank = measure(z)
        assert float(rank.detach()) <= 1.001
        rank.backward()
        assert z.grad is not None
        assert torch.isfinite(z.grad).all()


@pytest.mark.parametrize(("n", "d"), [(40, 6), (5, 9)])
def test_ranks_are_the_naive_ones(n: int, d: int) -> None:
    x = np.random.default_rng(0).normal(size=(n, d)) + 1
    centred, plain = (np.linalg.svd(each, compute_uv=False) for each in (x - x.mean(0), x))
    values = np.linalg.svd(np.cov(x.T, bias=True), compute_uv=False)
    np.testing.assert_allclose(feddecorr.singular_values(x), values, atol=1e-12)
    np.testing.assert_allclose(feddecorr.singular_values(x, of="features", centred=False), plain)
    assert float(feddecorr.effective_rank(x)) == pytest.approx(entropy_rank(values))
    assert float(feddecorr.effective_rank(x, of="features")) == pytest.approx(entropy_rank(centred))
    assert float(feddecorr.effective_rank(x, of="features", centred=False)) == pytest.approx(entropy_rank(plain))
    assert float(feddecorr.participation_ratio(x)) == pytest.approx(values.sum() ** 2 / (values**2).sum())
    assert float(feddecorr.stable_rank(x)) == pytest.approx((centred**2).sum() / centred[0] ** 2)


def test_they_are_the_measures_of_a_diagnosis() -> None:
    found = feddecorr.Diagnosis.of_features("z", [feddecorr.Batch(Z, Y)])
    assert float(feddecorr.effective_rank(Z)) == pytest.approx(found.effective_rank)
    assert float(feddecorr.effective_rank(Z, of="features")) == pytest.approx(found.effective_rank_of_features)
    assert float(feddecorr.rankme(Z)) == pytest.approx(found.rankme)
    assert float(feddecorr.alpha_req(Z)) == pytest.approx(found.power_law_exponent)
    assert feddecorr.neural_collapse(Z, Y)["nc1_variability"] == pytest.approx(found.nc1_variability)


def test_small_singular_values_are_right() -> None:
    """Twelve orders of magnitude below the largest, where products of features would have lost them."""
    scales = torch.tensor([1.0, 1e-6, 1e-12], dtype=torch.float64)
    found = feddecorr.singular_values(isotropic(50, 3) * scales, of="features") / 50**0.5
    torch.testing.assert_close(found, scales, rtol=1e-3, atol=0)


@pytest.mark.parametrize("exponent", [0.5, 1.0, 2.0])
def test_alpha_req_finds_a_power_law_again(exponent: float) -> None:
    """In any range of places, and as numpy's weighted fit does."""
    places = torch.arange(1, 21, dtype=torch.float64)
    z = isotropic(100, 20) * places ** (-exponent / 2)
    assert float(feddecorr.alpha_req(z)) == pytest.approx(exponent)
    bent = z.clone()
    bent[:, :3] *= 5
    assert float(feddecorr.alpha_req(bent, first=4, last=15)) == pytest.approx(exponent)
    values = feddecorr.singular_values(bent).numpy()
    slope = np.polyfit(places.log().numpy(), np.log(values), 1, w=places.numpy() ** -0.5)[0]
    assert float(feddecorr.alpha_req(bent)) == pytest.approx(-slope)
    assert torch.isnan(feddecorr.alpha_req(torch.zeros(4, 3)))


def test_lidar_is_the_naive_one() -> None:
    x, y = Z.numpy(), Y.numpy()
    means = np.stack([x[y == label].mean(0) for label in range(4)])
    within = sum(np.cov(x[y == label].T, bias=True) for label in range(4)) / 4 + 1e-4 * np.eye(6)
    values, vectors = np.linalg.eigh(within)
    root = vectors @ np.diag(values**-0.5) @ vectors.T
    spread = np.linalg.eigvalsh(root @ np.cov(means.T, bias=True) @ root).clip(0)
    shares = spread / spread.sum() + 1e-8
    assert float(feddecorr.lidar(Z, Y)) == pytest.approx(np.exp(-(shares * np.log(shares)).sum()), rel=1e-6)


def test_lidar_counts_the_directions_in_which_groups_differ() -> None:
    """Group means on a regular simplex of five corners, noise of one size in all directions: four."""
    means = 10 * torch.eye(5, dtype=torch.float64)
    noise = isotropic(40, 5)
    z, groups = (means[:, None] + noise).flatten(0, 1), torch.arange(5).repeat_interleave(40)
    assert float(feddecorr.lidar(z, groups)) == pytest.approx(4, rel=1e-5)


def test_cdnv_by_hand_and_by_numpy() -> None:
    """Two classes, 4 apart, with variance 1 each: 2 / (2 · 16). Unequal sizes of classes weigh the same."""
    z = torch.tensor([[-1.0], [1.0], [3.0], [5.0], [3.0], [5.0]])
    assert float(feddecorr.cdnv(z, [0, 0, 1, 1, 1, 1])) == pytest.approx(1 / 16)
    x, y = Z.numpy()[:50], Y.numpy()[:50]
    groups = [x[y == label] for label in range(4)]
    pairs = [
        (a.var(0).sum() + b.var(0).sum()) / (2 * ((a.mean(0) - b.mean(0)) ** 2).sum())
        for i, a in enumerate(groups)
        for b in groups[:i]
    ]
    assert float(feddecorr.cdnv(Z[:50], Y[:50])) == pytest.approx(np.mean(pairs))
    torch.testing.assert_close(feddecorr.cdnv(7 * Z + 1e5, Y), feddecorr.cdnv(Z, Y))


def test_alignment_and_uniformity_on_the_sphere() -> None:
    """Opposite pairs are 4 apart; n points on a regular simplex have uniformity −2t·n/(n − 1)."""
    assert float(feddecorr.alignment(Z, 3 * Z)) == pytest.approx(0)
    assert float(feddecorr.alignment(Z, -Z)) == pytest.approx(4)
    assert float(feddecorr.alignment(Z, -Z, power=1)) == pytest.approx(2)
    simplex = torch.eye(5, dtype=torch.float64) - 0.2
    assert float(feddecorr.uniformity(simplex, t=3)) == pytest.approx(-2 * 3 * 5 / 4)
    assert float(feddecorr.uniformity(torch.ones(4, 3))) == pytest.approx(0)


def test_uniformity_is_that_of_all_pairs() -> None:
    """Also where samples are taken in several parts."""
    z = torch.randn(1500, 3, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    distances = torch.pdist(nn.functional.normalize(z)).square()
    torch.testing.assert_close(feddecorr.uniformity(z), (-2 * distances).exp().mean().log())


def test_the_gradient_of_alignment_is_finite_where_pairs_are_the_same() -> None:
    for power in (1, 2):
        z = Z.clone().requires_grad_()
        feddecorr.alignment(z, Z, power=power).backward()
        assert z.grad is not None
        assert torch.isfinite(z.grad).all()


@pytest.mark.parametrize(("n", "d", "e"), [(8, 30, 20), (8, 30, 1), (40, 6, 3)])
def test_cka_is_the_same_through_samples_as_through_features(n: int, d: int, e: int) -> None:
    """By numpy, with matrices of features; and never above one."""
    stream = np.random.default_rng(0)
    a, b = stream.normal(size=(n, d)), stream.normal(size=(n, e))
    first, second = a - a.mean(0), b - b.mean(0)
    norms = np.linalg.norm(first.T @ first) * np.linalg.norm(second.T @ second)
    assert float(feddecorr.cka(a, b)) == pytest.approx(np.linalg.norm(first.T @ second) ** 2 / norms)
    assert all(float(feddecorr.cka(a * scale, a)) <= 1 for scale in (1, 3, 7))


def test_cka_of_few_samples_has_no_matrix_of_features() -> None:
    """Which for feature maps, laid flat, would take a terabyte."""
    z = torch.randn(4, 300_000, generator=torch.Generator().manual_seed(0))
    assert float(feddecorr.cka(z, -z)) == pytest.approx(1)


def test_cka_is_one_of_the_same_in_another_basis_and_is_that_of_grams() -> None:
    torch.testing.assert_close(feddecorr.cka(Z, 3 * Z @ TURN + 1), torch.ones((), dtype=torch.float64))
    a, b = Z.numpy(), Z.numpy()[:, :2] ** 2
    middle = np.eye(60) - 1 / 60
    k, other = (middle @ x @ x.T @ middle for x in (a, b))
    expected = (k * other).sum() / np.linalg.norm(k) / np.linalg.norm(other)
    assert float(feddecorr.cka(a, b)) == pytest.approx(expected)


def test_dead_features_are_those_that_never_vary() -> None:
    z = torch.cat([Z, torch.full((60, 2), 0.1)], 1)
    assert feddecorr.dead_features(torch.stack([z, torch.zeros_like(z)])).tolist() == [2, 8]


def test_neural_collapse_is_complete_on_a_simplex_with_its_own_head() -> None:
    """Every number is 0; with the opposite head NC3 is 2 and every decision another."""
    means = torch.eye(4, dtype=torch.float64) - 0.25
    y = torch.arange(4).repeat(10)
    head = nn.Linear(4, 4, bias=False)
    head.weight.data = means.float()
    for same in (head, means):
        assert list(feddecorr.neural_collapse(means[y], y, same).values()) == pytest.approx([0] * 6, abs=1e-6)
    opposite = feddecorr.neural_collapse(means[y], y, -means)
    assert opposite["nc3_duality_gap"] == pytest.approx(2)
    assert opposite["nc4_disagreement"] == 1
    assert torch.isnan(feddecorr.neural_collapse(means[y], y)["nc4_disagreement"])


def test_neural_collapse_is_that_of_a_diagnosis() -> None:
    """With labels that leave out some of the head's, under a large mean, and of several sets at once."""
    y, head = Y + (Y > 1), nn.Linear(6, 6)
    sets = torch.stack([Z + 1000, Z**3])
    found = feddecorr.neural_collapse(sets, y, head)
    for place, z in enumerate(sets):
        statistics = feddecorr.Statistics.of(z, y)
        expected = vars(measure_classes(statistics, head.weight.detach()))
        decisions = head(z.float()).argmax(1)
        nc4 = disagreement(feddecorr.Batch(z, y, decisions), statistics.classes or {}, statistics.moments.mean)
        expected |= {"nc4_disagreement": nc4}
        assert {name: float(each[place]) for name, each in found.items()} == pytest.approx(
            {name: expected[name] for name in found}
        )


@pytest.mark.parametrize("value", [0.1, 1e5 / 7])
def test_of_classes_that_coincide_neural_collapse_is_unknown(value: float) -> None:
    """Nor does rounding make means of them: their collapse is total."""
    for classes in (2, 3, 6, 7):
        z, y = torch.full((70, 4), value, dtype=torch.float64), torch.arange(70) % classes
        found = feddecorr.neural_collapse(z, y, torch.ones(7, 4))
        assert torch.isnan(torch.stack(list(found.values()))).all()
        diagnosis = feddecorr.Diagnosis.of_features("z", [feddecorr.Batch(z, y)])
        assert diagnosis.collapse_score == 1
        assert diagnosis.nc1_variability is diagnosis.nc2_cosine_gap is diagnosis.nc2_cosine_variation is None


def test_what_does_not_fit_is_refused() -> None:
    wrong: list[tuple[Callable[[], object], str]] = [
        (lambda: feddecorr.cdnv(Z, Y[1:]), "as many labels"),
        (lambda: feddecorr.lidar(Z, torch.zeros(60)), "same label"),
        (lambda: feddecorr.cka(Z, Z[1:]), "one by one"),
        (lambda: feddecorr.alignment(Z, Z[:, 1:]), "no distance"),
        (lambda: feddecorr.uniformity(torch.zeros(3, 2)), "length 0"),
        (lambda: feddecorr.rankme("abc"), "an array of numbers is needed, not str"),
        (lambda: feddecorr.rankme(None), "not NoneType"),  # type: ignore[arg-type]
        (lambda: feddecorr.cdnv(Z, torch.arange(60)), "a label of its own"),
        (lambda: feddecorr.cdnv(Z, Y + 0.5), "whole numbers"),
        (lambda: feddecorr.neural_collapse(Z, [["a", "b"][each % 2] for each in range(60)]), r"numpy\.unique"),
        (lambda: feddecorr.lidar(1e9 * torch.eye(60), Y), "delta=0.0001 is too small"),
        (lambda: feddecorr.neural_collapse(Z, Y, torch.ones(4, 5)), "a head for 6 features"),
        (lambda: feddecorr.neural_collapse(Z, Y, torch.ones(6)), r"not \(6,\)"),
        (lambda: feddecorr.neural_collapse(Z, Y, torch.ones(3, 6)), "labels from 0 to 3 has the shape"),
        (lambda: feddecorr.effective_rank(Z, of="z"), "'covariance' or"),  # type: ignore[arg-type]
    ]
    for call, said in wrong:
        with pytest.raises(UserError, match=said):
            call()
