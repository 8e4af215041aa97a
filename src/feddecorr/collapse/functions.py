"""Measures of collapse as functions: features in, a number out.

Features are a tensor or an array of shape (…, n, d), n samples of d features each. The number is a tensor in float64
on the features' device, one for each of the leading dimensions, with a gradient where the measure has one.
docs/which-effective-rank.md compares the ranks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot, pad

from feddecorr.collapse import spectrum
from feddecorr.collapse.measures import classifier_weight
from feddecorr.collapse.statistics import as_labels, as_tensor, centre, check, in_double
from feddecorr.errors import UserError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

SpectrumOf = Literal["covariance", "features"]
"""Whose singular values a rank is taken of."""

ROWS = 1024
"""Samples that are compared with all others at once."""

RANGE = 1e140
"""Features up to this size, and from one by it on, have squares and sums of squares in float64."""


def singular_values(z: Tensor | ArrayLike, *, of: SpectrumOf = "covariance", centred: bool = True) -> Tensor:
    """Return the singular values, largest first: d of the covariance (1/n), or min(n, d) of the features.

    All are computed from the features, never from their products, so that small ones are right, too. Not `centred`,
    the covariance is the second moment ZᵀZ/n.
    """
    if of not in get_args(SpectrumOf):
        raise UserError(f"of='{of}': singular values are of the 'covariance' or of the 'features'")
    z = _features(z)
    n, d = z.shape[-2:]
    values: Tensor = torch.linalg.svdvals(centre(z)[1] if centred else z)
    return values if of == "features" else pad(values, (0, d - values.shape[-1])).square() / n


def effective_rank(
    z: Tensor | ArrayLike, *, of: SpectrumOf = "covariance", centred: bool = True, epsilon: float = 0.0
) -> Tensor:
    """Return how many dimensions carry the features: from 1 to min(n − 1, d), and 0 without any spread.

    It is exp(−Σ pₖ log pₖ) with the shares pₖ = σₖ/Σσ + epsilon of the singular values (Roy and Vetterli, 2007), by
    default those of the covariance, which is what runs record.
    """
    return spectrum.entropy_rank(singular_values(z, of=of, centred=centred), epsilon)


def rankme(z: Tensor | ArrayLike, *, epsilon: float = 1e-7) -> Tensor:
    """Return RankMe (Garrido et al., ICML 2023): the effective rank of the features as they are, not centred."""
    return effective_rank(z, of="features", centred=False, epsilon=epsilon)


def participation_ratio(z: Tensor | ArrayLike) -> Tensor:
    """Return (Σλ)² / Σλ² of the covariance's singular values (Gao et al., 2017): from 1 to min(n − 1, d)."""
    values = spectrum.relative(singular_values(z))
    return values.sum(-1).square() / values.square().sum(-1).clamp(min=1)  # the largest is 1, or all are 0


def stable_rank(z: Tensor | ArrayLike) -> Tensor:
    """Return Σλ / λ₁ = ‖Z‖²_F / ‖Z‖²₂ of the centred features Z (Rudelson and Vershynin, 2007)."""
    return spectrum.relative(singular_values(z)).sum(-1)


def alpha_req(z: Tensor | ArrayLike, *, first: int = 1, last: int | None = None) -> Tensor:
    """Return the a of the best fit λₖ ∝ k⁻ᵃ to the covariance's singular values, k from `first` to `last`.

    That is α-ReQ (Agrawal et al., NeurIPS 2022) with the fit of Stringer et al. (2019), a line through
    (log k, log λₖ) in which point k weighs 1/k. Public code calls it with first=4, last=100 or 50. Values that are
    rounding are left out; of fewer than two values the result is NaN.
    """
    values = singular_values(z)
    n, d = as_tensor(z).shape[-2:]
    places = torch.arange(1, d + 1, dtype=values.dtype, device=values.device)
    rounding = max(n, d) * torch.finfo(values.dtype).eps
    seen = (values > rounding * values[..., :1]) & (places >= first) & (places <= min(last or d, n - 1))
    weights = seen / places
    weights = weights / weights.sum(-1, keepdim=True)
    x, y = places.log(), torch.where(seen, values, 1.0).log()
    x, y = x - (weights * x).sum(-1, keepdim=True), y - (weights * y).sum(-1, keepdim=True)
    return -(weights * x * y).sum(-1) / (weights * x * x).sum(-1)


def dead_features(z: Tensor | ArrayLike) -> Tensor:
    """Return the number of features that have the same value in all samples, exactly."""
    z = _features(z)
    return (z == z[..., :1, :]).all(-2).sum(-1)


def lidar(z: Tensor | ArrayLike, groups: Tensor | ArrayLike, *, delta: float = 1e-4, epsilon: float = 1e-8) -> Tensor:
    """Return LiDAR (Thilak et al., ICLR 2024): in how many dimensions groups of samples differ.

    `groups`, of shape (n,), says whose views the samples are, several of each. It is the effective rank of
    Σ_w^(−1/2) Σ_b Σ_w^(−1/2), with the covariance Σ_b of the groups' means and the mean Σ_w of the covariances within
    groups plus delta·I. Delta is in the square of the features' unit.
    """
    found = _by_class(_features(z), groups)
    weights = 1 / found.counts.double()
    scatter = (found.within * weights[found.places, None]).mT @ found.within / len(weights)
    d = scatter.shape[-1]
    factor, failed = torch.linalg.cholesky_ex(
        scatter + delta * torch.eye(d, dtype=scatter.dtype, device=scatter.device)
    )
    if failed.any():
        raise UserError(f"delta={delta} is too small for the covariance within groups: its inverse is rounding")
    between = torch.linalg.solve_triangular(factor, centre(found.means)[1].mT, upper=False)
    values = torch.linalg.svdvals(between).square()
    return spectrum.entropy_rank(pad(values, (0, d - values.shape[-1])), epsilon)


def cdnv(z: Tensor | ArrayLike, y: Tensor | ArrayLike) -> Tensor:
    """Return the class-distance normalized variance (Galanti et al., ICLR 2022); 0 when classes have collapsed.

    It is the mean over pairs of classes of (Var₁ + Var₂) / (2‖μ₁ − μ₂‖²), Var the mean squared distance of a class's
    samples from their mean μ. Infinite where two means coincide, and NaN where their samples do, too.
    """
    found = _by_class(_features(z), y)
    squares = found.within.square().sum(-1) / found.counts[found.places]
    variances = squares.new_zeros(found.means.shape[:-1]).index_add(-1, found.places, squares)
    one, other = _pairs(found.means)
    gaps = torch.cdist(found.means, found.means, compute_mode="donot_use_mm_for_euclid_dist")[..., one, other].square()
    return ((variances[..., one] + variances[..., other]) / (2 * gaps)).mean(-1)


def alignment(a: Tensor | ArrayLike, b: Tensor | ArrayLike, *, power: float = 2.0) -> Tensor:
    """Return the mean of ‖aᵢ − bᵢ‖^power over pairs of features, scaled to length 1 (Wang and Isola, ICML 2020)."""
    first, second = _pair(a, b)
    if first.shape[-1] != second.shape[-1]:
        raise UserError(f"{first.shape[-1]} and {second.shape[-1]} features have no distance")
    distances: Tensor = torch.linalg.vector_norm(_directions(first) - _directions(second), dim=-1)
    return distances.pow(power).mean(-1)


def uniformity(z: Tensor | ArrayLike, *, t: float = 2.0) -> Tensor:
    """Return log of the mean of exp(−t‖zᵢ − zⱼ‖²) over i ≠ j (Wang and Isola, ICML 2020); 0 when all are the same.

    Features are scaled to length 1 first.
    """
    z = _directions(_features(z))
    n = z.shape[-2]
    places = torch.arange(n, device=z.device)
    parts = [
        (2 * t * (z[..., rows, :] @ z.mT - 1)).masked_fill(rows[:, None] == places, -torch.inf).logsumexp((-2, -1))
        for rows in places.split(ROWS)
    ]
    return torch.stack(parts).logsumexp(0) - torch.tensor(n * (n - 1), dtype=z.dtype, device=z.device).log()


def cka(a: Tensor | ArrayLike, b: Tensor | ArrayLike) -> Tensor:
    """Return linear CKA, ‖AᵀB‖²_F / (‖AᵀA‖_F ‖BᵀB‖_F) of centred features (Kornblith et al., ICML 2019).

    From 0 to 1 of the same samples in two representations; NaN where one of them never varies.
    """
    first, second = (centre(each)[1] for each in _pair(a, b))
    first, second = (each / each.norm(dim=(-2, -1), keepdim=True) for each in (first, second))
    sizes = [_smaller_product(each).norm(dim=(-2, -1)) for each in (first, second)]
    if first.shape[-2] ** 2 < first.shape[-1] * second.shape[-1]:
        together = ((first @ first.mT) * (second @ second.mT)).sum((-2, -1))  # the same, without a matrix of features
    else:
        together = (first.mT @ second).square().sum((-2, -1))
    likeness: Tensor = together / (sizes[0] * sizes[1])
    return likeness.clamp(max=1)


def neural_collapse(
    z: Tensor | ArrayLike, y: Tensor | ArrayLike, head: nn.Module | Tensor | ArrayLike | None = None
) -> dict[str, Tensor]:
    """Return NC1 to NC4 (Papyan, Han and Donoho, 2020) by the names of docs/diagnosis.md; all are 0 when collapsed.

    `head` is the classifier, or its weight of shape (classes, d) if it has no bias; row k is for label k. Unknown is
    NaN: NC3 and NC4 without a head, and all of classes that coincide.
    """
    found = _by_class(_features(z), y)
    means = centre(found.means)[1]
    lengths: Tensor = torch.linalg.vector_norm(means, dim=-1)
    directions = means / lengths.unsqueeze(-1)
    one, other = _pairs(means)
    cosines = (directions @ directions.mT)[..., one, other]
    measures = {
        # Σ_B is MᵀM/C with the centred means for the rows of M, so tr(Σ_W Σ_B⁺)/C is the mean of ‖(M⁺)ᵀ(z − μ)‖².
        "nc1_variability": (found.within @ torch.linalg.pinv(means)).square().sum(-1).mean(-1),
        "nc2_norm_variation": _deviation(lengths) / lengths.mean(-1),
        "nc2_cosine_variation": _deviation(cosines),
        "nc2_cosine_gap": (cosines + 1 / (len(found.labels) - 1)).abs().mean(-1),
        **_of_head(found, head),
    }
    apart = (lengths > 0).any(-1)
    return {name: torch.where(apart, measure, torch.nan) for name, measure in measures.items()}


def _of_head(found: _Classes, head: nn.Module | Tensor | ArrayLike | None) -> dict[str, Tensor]:
    """Return NC3 and NC4."""
    unknown = found.means.new_full(found.means.shape[:-2], torch.nan)
    if head is None:
        return {"nc3_duality_gap": unknown, "nc4_disagreement": unknown}
    head = head if isinstance(head, nn.Module) else as_tensor(head)
    weight = classifier_weight(head) if isinstance(head, nn.Module) else head
    gap = unknown if weight is None else _duality_gap(found, weight.to(found.means))
    with torch.no_grad():
        z = found.within + found.means[..., found.places, :]
        nearest = (z @ found.means.mT - found.means.square().sum(-1).unsqueeze(-2) / 2).argmax(-1)
        z = z + found.mean.unsqueeze(-2)
        logits = head(z.to(next(head.parameters(), z))) if isinstance(head, nn.Module) else z @ head.to(z).mT
        wrong = found.labels[nearest] != logits.argmax(-1).to(z.device)
    return {"nc3_duality_gap": gap, "nc4_disagreement": wrong.double().mean(-1)}


def _duality_gap(found: _Classes, weight: Tensor) -> Tensor:
    d, least, most = found.means.shape[-1], int(found.labels.min()), int(found.labels.max())
    if weight.ndim < 2 or weight.shape[-1] != d or least < 0 or most >= weight.shape[-2]:
        said = f"a head for {d} features and labels from {least} to {most}"
        raise UserError(f"{said} has the shape ({most + 1} or more, {d}), not {tuple(weight.shape)}")
    rows, means = (centre(each)[1] for each in (weight[..., found.labels, :], found.means))
    rows, means = (each / torch.linalg.matrix_norm(each, keepdim=True) for each in (rows, means))
    gap: Tensor = torch.linalg.matrix_norm(rows - means)
    return gap


def _pairs(means: Tensor) -> tuple[Tensor, Tensor]:
    """Return the places of the two classes of each pair."""
    one, other = torch.triu_indices(means.shape[-2], means.shape[-2], 1, device=means.device)
    return one, other


def _deviation(values: Tensor) -> Tensor:
    """Return the biased standard deviation, whose gradient is 0 where there is none."""
    moved = values - values.mean(-1, keepdim=True)
    deviation: Tensor = torch.linalg.vector_norm(moved, dim=-1) / values.shape[-1] ** 0.5
    return deviation


def _smaller_product(z: Tensor) -> Tensor:
    """Return ZᵀZ or ZZᵀ, which have the same norm."""
    return z.mT @ z if z.shape[-1] < z.shape[-2] else z @ z.mT


def _features(z: Tensor | ArrayLike) -> Tensor:
    """Return features in float64, and refuse what are none."""
    found = as_tensor(z)
    if found.ndim < 2 or 0 in found.shape:
        raise UserError(f"features have the shape (…, samples, features), not {tuple(found.shape)}")
    check(found.detach().flatten(0, -2), None)
    if found.shape[-2] < 2:
        raise UserError("one sample has no spread: a measure needs at least two, better more than features")
    found = in_double(found)
    largest = float(found.detach().abs().amax())
    if largest > RANGE or 0 < largest < 1 / RANGE:
        raise UserError(f"features up to {largest:.0e} are too {'large' if largest > 1 else 'small'} to be squared")
    return found


def _pair(a: Tensor | ArrayLike, b: Tensor | ArrayLike) -> tuple[Tensor, Tensor]:
    first, second = _features(a), _features(b)
    if first.shape[-2] != second.shape[-2]:
        raise UserError(f"{first.shape[-2]} and {second.shape[-2]} samples cannot be compared one by one")
    return first, second


def _directions(z: Tensor) -> Tensor:
    lengths: Tensor = torch.linalg.vector_norm(z, dim=-1, keepdim=True)
    if not lengths.detach().all():
        raise UserError(f"{int((lengths == 0).sum())} samples have length 0 and so no direction")
    return z / lengths


class _Classes(NamedTuple):
    """What is known of classes: their means around the mean of all samples, and the samples' deviations from them.

    Then the place of each sample's class among them, the classes' labels and sizes, and the mean of all samples.
    """

    means: Tensor
    within: Tensor
    places: Tensor
    labels: Tensor
    counts: Tensor
    mean: Tensor


def _by_class(z: Tensor, y: Tensor | ArrayLike) -> _Classes:
    y = as_labels(y, z.device)
    check(z.detach().reshape(-1, *z.shape[-2:])[0], y)
    labels, places, counts = y.unique(return_inverse=True, return_counts=True)
    if len(labels) < 2:
        raise UserError("all samples have the same label: two classes or groups are needed")
    if len(labels) == len(y):
        raise UserError("every sample has a label of its own: it takes several of a class or group to have a spread")
    mean, moved = centre(z)  # around the common mean, so that a large one costs no digits
    means = (one_hot(places).double() / counts).mT @ moved
    return _Classes(means, moved - means[..., places, :], places, labels, counts, mean)
