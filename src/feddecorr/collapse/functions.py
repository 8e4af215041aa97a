"""Measures of collapse as functions: features in, a number out.

Features are a tensor or an array of shape (…, n, d), n samples of d features each. The number is a tensor in float64
on the features' device, one for each of the leading dimensions, with a gradient where the measure has one.
docs/which-effective-rank.md compares the ranks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot, pad

from feddecorr.collapse import neural_collapse as classes
from feddecorr.collapse import spectrum
from feddecorr.collapse.measures import classifier_weight
from feddecorr.collapse.statistics import Batch, Statistics, centre, check
from feddecorr.errors import UserError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

SpectrumOf = Literal["covariance", "features"]
"""Whose singular values a rank is taken of."""

ROWS = 1024
"""Samples that are compared with all others at once."""


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
    n, d = torch.as_tensor(z).shape[-2:]
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
    z = _features(z)
    means, within, shares = _by_class(z, groups)
    scatter = (within * shares[:, None]).mT @ within / shares.sum()
    d = z.shape[-1]
    factor = torch.linalg.cholesky(scatter + delta * torch.eye(d, dtype=z.dtype, device=z.device))
    between = torch.linalg.solve_triangular(factor, centre(means)[1].mT, upper=False)
    values = torch.linalg.svdvals(between).square()
    return spectrum.entropy_rank(pad(values, (0, d - values.shape[-1])), epsilon)


def cdnv(z: Tensor | ArrayLike, y: Tensor | ArrayLike) -> Tensor:
    """Return the class-distance normalized variance (Galanti et al., ICLR 2022); 0 when classes have collapsed.

    It is the mean over pairs of classes of (Var₁ + Var₂) / (2‖μ₁ − μ₂‖²), Var the mean squared distance of a class's
    samples from their mean μ. Infinite where two means coincide.
    """
    means, within, shares = _by_class(_features(z), y)
    labels = torch.as_tensor(y, device=means.device).unique(return_inverse=True)[1]
    squares = within.square().sum(-1) * shares
    variances = squares.new_zeros(means.shape[:-1]).index_add(-1, labels, squares)
    one, other = torch.triu_indices(means.shape[-2], means.shape[-2], 1, device=means.device)
    gaps = torch.cdist(means, means, compute_mode="donot_use_mm_for_euclid_dist")[..., one, other].square()
    return ((variances[..., one] + variances[..., other]) / (2 * gaps)).mean(-1)


def alignment(a: Tensor | ArrayLike, b: Tensor | ArrayLike, *, power: float = 2.0) -> Tensor:
    """Return the mean of ‖aᵢ − bᵢ‖^power over pairs of features, scaled to length 1 (Wang and Isola, ICML 2020)."""
    first, second = _pair(a, b)
    if first.shape[-1] != second.shape[-1]:
        raise UserError(f"{first.shape[-1]} and {second.shape[-1]} features have no distance")
    return (_directions(first) - _directions(second)).square().sum(-1).pow(power / 2).mean(-1)


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
    sizes = [(each.mT @ each).norm(dim=(-2, -1)) for each in (first, second)]
    likeness: Tensor = (first.mT @ second).square().sum((-2, -1)) / (sizes[0] * sizes[1])
    return likeness


def neural_collapse(
    z: Tensor | ArrayLike, y: Tensor | ArrayLike, head: nn.Module | Tensor | None = None
) -> dict[str, float | None]:
    """Return NC1 to NC4 (Papyan, Han and Donoho, 2020) by the names of docs/diagnosis.md; all are 0 when collapsed.

    Features have the shape (n, d) here. `head` is the classifier, or its weight of shape (classes, d) if it has no
    bias; without it, NC3 and NC4 are None.
    """
    z = _features(z).detach()
    labels = torch.as_tensor(y, device=z.device)
    check(z, labels)
    weight = classifier_weight(head) if isinstance(head, nn.Module) else head
    if weight is not None and weight.shape[1:] != z.shape[1:]:
        raise UserError(f"a head for {z.shape[1]} features has the shape (classes, {z.shape[1]}), not {weight.shape}")
    found = Statistics.of(z, labels)
    measures = classes.measure_classes(found, weight)
    decisions = _decisions(z, head)
    disagreement = classes.disagreement(Batch(z, labels, decisions), found.classes or {}, found.moments.mean)
    names = ("nc1_variability", "nc2_norm_variation", "nc2_cosine_variation", "nc2_cosine_gap", "nc3_duality_gap")
    return {**{name: getattr(measures, name) for name in names}, "nc4_disagreement": disagreement}


def _decisions(z: Tensor, head: nn.Module | Tensor | None) -> Tensor | None:
    if head is None:
        return None
    with torch.no_grad():
        if isinstance(head, Tensor):
            return (z @ head.to(z).T).argmax(1)
        decisions: Tensor = head(z.to(next(head.parameters()))).argmax(1)
        return decisions.to(z.device)


def _features(z: Tensor | ArrayLike) -> Tensor:
    """Return features in float64, and refuse what are none."""
    found = torch.as_tensor(z)
    if found.ndim < 2 or 0 in found.shape:
        raise UserError(f"features have the shape (…, samples, features), not {tuple(found.shape)}")
    check(found.detach().flatten(0, -2), None)
    if found.shape[-2] < 2:
        raise UserError("one sample has no spread: a measure needs at least two, better more than features")
    found = found.double()
    if not torch.isfinite(found.detach().square().sum()):
        raise UserError("the features are too large to be squared in float64")
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


def _by_class(z: Tensor, y: Tensor | ArrayLike) -> tuple[Tensor, Tensor, Tensor]:
    """Return the means of the classes, the samples' deviations from them, and 1/(size of its class) of each sample."""
    y = torch.as_tensor(y, device=z.device)
    if y.shape != z.shape[-2:-1]:
        raise UserError(f"{z.shape[-2]} samples need as many labels, not labels of shape {tuple(y.shape)}")
    _, labels, counts = y.unique(return_inverse=True, return_counts=True)
    if len(counts) < 2:
        raise UserError("all samples have the same label: two classes or groups are needed")
    shares = (1 / counts.double())[labels]
    mean, moved = centre(z)  # around the common mean, so that a large one costs no digits
    means = (one_hot(labels).double() * shares[:, None]).mT @ moved
    return means + mean.unsqueeze(-2), moved - means[..., labels, :], shares
