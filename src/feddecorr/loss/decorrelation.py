"""Losses that keep a batch of representations from collapsing into few dimensions, as pure functions.

Each takes representations of shape (n, d), or one of the shapes that `as_batch` averages to it, and returns a
scalar on their graph and device. All share what they promise:

- computed in float32 at least, whatever autocast is in force;
- a feature that never varies counts as zero; fewer than two samples give zero; gradients stay finite;
- NaN or infinity in the input makes the loss NaN: nothing waits for the device in a step (the module refuses them
  where that costs nothing, on the CPU);
- ‖XᵀX‖_F = ‖XXᵀ‖_F, and both products have the same eigenvalues but for zeros: always the smaller one is
  made, so no d×d matrix when n < d.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, Concatenate, Literal, ParamSpec, get_args

import torch
from torch import Tensor
from torch.nn.functional import batch_norm, pad

from feddecorr.errors import UserError


def gram(x: Tensor) -> Tensor:
    """Return XXᵀ or XᵀX, whichever is smaller; of several X, of each."""
    return _product(x, rows=x.shape[-2] < x.shape[-1])


def between_rows(x: Tensor) -> Tensor:
    """Return XXᵀ, the inner products of the rows."""
    return _product(x, rows=True)


def off_diagonal(x: Tensor) -> Tensor:
    """Return the sum of the squared off-diagonal entries of XᵀX; of several X, of each."""
    n, d = x.shape[-2:]
    if n < d:
        # Not below zero, where rounding can take the difference of nearly equal sums.
        return (gram(x).square().sum((-2, -1)) - x.square().sum(-2).square().sum(-1)).clamp(min=0)
    return 2 * gram(x).triu(1).square().sum((-2, -1))


def _product(x: Tensor, *, rows: bool) -> Tensor:
    product: Tensor = _Product.apply(x, rows)  # type: ignore[no-untyped-call]  # torch gives it no types
    return product


class _Product(torch.autograd.Function):
    """Differentiates XXᵀ by one product where PyTorch takes two, and in full precision.

    Left to PyTorch, products of the backward pass follow autocast: when it is called inside of one, and in
    compiled functions always. It also works under `torch.func`, where batches of several clients are stacked.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, rows: bool) -> Tensor:
        return x @ x.mT if rows else x.mT @ x

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, bool], _output: Tensor) -> None:
        x, ctx.rows = inputs
        ctx.save_for_backward(x)

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor, None]:
        (x,) = ctx.saved_tensors
        with torch.autocast(x.device.type, enabled=False):
            both = slope + slope.mT
            product: Tensor = both @ x if ctx.rows else x @ both
            return product, None


Normalization = Literal["paper", "released"]
Dying = Literal["ignored", "counted"]

EPSILON = 1e-8
"""Added to each unbiased variance, as in the authors' code: it bounds the gradient of a feature that dies.

Features with a standard deviation of 1e-4 and less fade out; to all others the scale of a feature is nothing.
"""

FADED = 0.01
"""The share of the mean variance at which a feature counts as half dead."""

Options = ParamSpec("Options")


def as_batch(z: Tensor) -> Tensor:
    """Return representations as (n, d) in float32 at least.

    Feature maps (n, d, h, w) and (n, d, t, h, w) and token sequences (n, t, d) are averaged over their positions.
    """
    if not z.is_floating_point():
        raise UserError(f"representations are floating-point numbers, not {z.dtype}")
    wide = z.to(torch.promote_types(z.dtype, torch.float32))
    if wide.ndim == 2:
        return wide
    if wide.ndim == 3:
        return wide.mean(1)
    if wide.ndim in (4, 5):
        return wide.flatten(2).mean(2)
    raise UserError(f"representations have the shape (n, d), (n, t, d) or (n, d, h, w), not {tuple(z.shape)}")


def loss_of_batches(
    formula: Callable[Concatenate[Tensor, Options], Tensor],
) -> Callable[Concatenate[Tensor, Options], Tensor]:
    """Let the formula see only what it can deal with: finite (n, d) floats of full precision, n at least two."""

    @functools.wraps(formula)
    def loss(z: Tensor, /, *options: Options.args, **named: Options.kwargs) -> Tensor:
        with torch.autocast(z.device.type, enabled=False):
            batch = as_batch(z)
            return formula(batch, *options, **named) if len(batch) > 1 else (batch * 0).sum()

    return loss


@loss_of_batches
def feddecorr(z: Tensor, normalization: Normalization = "released", dying: Dying = "ignored") -> Tensor:
    """Return the FedDecorr loss (Shi et al., ICLR 2023).

    `paper` is its equation 8, ‖K‖²_F / d², with K the correlation matrix. `released` is what the authors' code
    computes: the mean square of the off-diagonal entries of (n−1)·K, divided by n. They are related by
    released = ((n−1)² / n) · (d·paper − 1) / (d−1), so one β acts about n times stronger under `released`.

    As published, a feature that never varies correlates with nothing: its death lowers the loss (`ignored`). Under
    `counted` its squared correlation with every other feature is 1, and that of one that fades lies as far on the way
    to 1 as it has faded. Where all are dead, the loss is largest. The death of a feature does not lower it, unless that
    feature held most of the variance: features fade relative to the mean variance (`fading`).
    """
    return _feddecorr(z, normalization, dying)


def feddecorr_of_each(z: Tensor, normalization: Normalization = "released", dying: Dying = "ignored") -> Tensor:
    """Return the FedDecorr loss of each of several batches, of shape (batches, n, d), all at once."""
    with torch.autocast(z.device.type, enabled=False):
        wide = z.to(torch.promote_types(z.dtype, torch.float32))
        return _feddecorr(wide, normalization, dying) if z.shape[1] > 1 else (wide * 0).sum((-2, -1))


def _feddecorr(z: Tensor, normalization: Normalization, dying: Dying) -> Tensor:
    check_options(normalization, dying)
    n, d = z.shape[-2:]
    scores = standardize(z)
    pairs = d * max(d - 1, 1)
    if dying == "counted":
        alive = 1 - fading(z).square()
        # Squared correlations between living features, and 1 in place of what the dead have lost.
        weighted = scores * alive.clamp(min=torch.finfo(z.dtype).tiny).sqrt().unsqueeze(-2)
        both_alive = (alive.sum(-1).square() - alive.square().sum(-1)) / pairs
        mean = off_diagonal(weighted) / (n**2 * pairs) + (1 - both_alive) * (d > 1)
        return (1 + (d - 1) * mean) / d if normalization == "paper" else mean * ((n - 1) ** 2 / n)
    if normalization == "paper":
        return gram(scores).square().sum((-2, -1)) / (n * d) ** 2
    return off_diagonal(scores) * ((n - 1) ** 2 / (n**3 * pairs))


def fading(z: Tensor) -> Tensor:
    """Return how far each feature has died: from 0, for one that varies, to 1, for one that never does.

    It is s / (v + s), with v the feature's variance and s a hundredth of the mean of all variances: the scale of the
    representations does not matter. Of several batches, of each.
    """
    variances = centre(z).square().mean(-2)
    small = FADED * variances.mean(-1, keepdim=True)
    return 1 - variances / (variances + small).clamp(min=torch.finfo(z.dtype).tiny)


@loss_of_batches
def logdet(z: Tensor, shrinkage: float = 0.01) -> Tensor:
    """Return −log det((1−s)·K + s·I) / d, with K the correlation matrix and s the shrinkage.

    Where no feature is dead that is 0 if K is the identity, and more for any other K. Of n samples K has d − n + 1
    eigenvalues of zero at least, whose logarithm has no limit; the shrinkage bounds it, and the gradient. On the n×n
    side, d − n of them are missing; each adds −log s.
    """
    if not 0 < shrinkage < 1:
        raise UserError(f"the shrinkage is between 0 and 1, not {shrinkage}")
    n, d = z.shape
    # Autocast leaves float64 alone, also in the backward pass. The solver takes no NaN: it is added after.
    product = gram(standardize(z)) / n
    wide = product.nan_to_num().double()
    shrunk = (1 - shrinkage) * wide + shrinkage * torch.eye(len(wide), dtype=wide.dtype, device=wide.device)
    value: Tensor = torch.linalg.slogdet(shrunk).logabsdet + max(d - n, 0) * math.log(shrinkage)
    return -(value / d).to(z.dtype) + 0 * product.detach().sum()


@loss_of_batches
def decov(z: Tensor) -> Tensor:
    """Return DeCov, ½ (‖C‖²_F − ‖diag C‖²) with C the covariance by 1/n (Cogswell et al., ICLR 2016)."""
    return off_diagonal(centre(z)) / (2 * len(z) ** 2)


@loss_of_batches
def structured_decov(z: Tensor, size: int = 8) -> Tensor:
    """Return DeCov between groups of `size` consecutive features; within a group they may covary.

    After the Structured Decorrelation Constraint (Xiong et al., ICDM 2016), as we read it; no public code confirms
    the formula: ½ (‖C‖²_F − Σ_g ‖C_gg‖²_F), with C_gg the covariance within group g. Groups of one make it DeCov;
    a single group makes it zero.
    """
    n, d = z.shape
    if size < 1:
        raise UserError(f"a group has at least one feature, not {size}")
    centred = centre(z)
    size = min(size, d)
    groups = pad(centred, (0, -d % size)).unflatten(1, (-1, size)).transpose(0, 1)  # (groups, n, size)
    return (gram(centred).square().sum() - gram(groups).square().sum()).clamp(min=0) / (2 * n**2)


@loss_of_batches
def singular(z: Tensor) -> Tensor:
    """Return L_singular, the variance of the covariance's singular values (equation 6 of the FedDecorr paper).

    Exact, yet without any decomposition: they are the eigenvalues of C, so with their mean t = tr(C)/d the
    variance is ‖C − t·I‖²_F / d. On the n×n side, d − n eigenvalues are missing; each is zero and adds t².
    """
    n, d = z.shape
    product = gram(centre(z)) / n
    mean = product.trace() / d
    deviations = (product - torch.diag(mean.expand(len(product)))).square().sum()
    return (deviations + max(d - n, 0) * mean.square()) / d


@loss_of_batches
def vicreg_covariance(z: Tensor) -> Tensor:
    """Return VICReg's covariance term, Σ_{i≠j} C_ij² / d, C by 1/(n−1) (Bardes, Ponce and LeCun, ICLR 2022)."""
    n, d = z.shape
    return off_diagonal(centre(z)) / ((n - 1) ** 2 * d)


@loss_of_batches
def vicreg_variance(z: Tensor) -> Tensor:
    """Return VICReg's variance term: how far, on average, standard deviations stay below one (same paper)."""
    variances = centre(z).square().sum(0) / (len(z) - 1)
    return (1 - (variances + 1e-4).sqrt()).relu().mean()


@loss_of_batches
def spectral_entropy(z: Tensor) -> Tensor:
    """Return minus the logarithm of the effective rank (Roy and Vetterli, 2007) of the covariance matrix.

    That is minus the entropy of its eigenvalues, divided by their sum. Those below rounding are left out: the
    slope of the entropy has no limit at zero. Identical samples, which have no spectrum, give zero.
    """
    centred = centre(z)
    tiny = torch.finfo(z.dtype).tiny
    shares = gram(centred) / centred.square().sum().clamp(min=tiny)
    # Autocast leaves float64 alone, also in the backward pass. The solver takes no NaN: it is added after.
    values = torch.linalg.eigvalsh(shares.nan_to_num().double())
    seen = torch.where(values > torch.finfo(z.dtype).eps, values, 1.0)  # ln 1 = 0
    return (seen * seen.log()).sum().to(z.dtype) + 0 * shares.detach().sum()


def check_options(normalization: Normalization, dying: Dying) -> None:
    """Refuse values that the FedDecorr loss does not have."""
    if normalization not in get_args(Normalization):
        raise UserError(f"the normalization is one of {', '.join(get_args(Normalization))}, not {normalization!r}")
    if dying not in get_args(Dying):
        raise UserError(f"dying features are one of {', '.join(get_args(Dying))}, not {dying!r}")


def centre(z: Tensor) -> Tensor:
    """Return `z` without the mean of each feature; of several batches, of each.

    One sample is taken off first. That changes no value, but makes a feature that never varies exactly zero,
    and large means cost no digits.
    """
    moved = z - z[..., :1, :].detach()
    return moved - moved.mean(-2, keepdim=True)


def standardize(z: Tensor) -> Tensor:
    """Return the z-scores of each feature over the batch, by the biased standard deviation; of several, over each."""
    n = z.shape[-2]
    moved = z - z[..., :1, :].detach()
    if z.ndim > 2:
        moved = moved.transpose(0, 1).flatten(1)  # features of another batch are other features
    # BatchNorm without its affine part and memory is just that, in one fused step.
    scores = batch_norm(moved, None, None, training=True, eps=EPSILON * (n - 1) / n)
    return scores.unflatten(1, (len(z), -1)).transpose(0, 1) if z.ndim > 2 else scores
